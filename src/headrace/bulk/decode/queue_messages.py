"""Messages of queues as columns: contents are AMQP frames, decoded all messages at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.bulk.decode.gather import Bytes, Places, distinct, pick, read
from headrace.bulk.decode.records import MalformedContent, MessageRows, refuse
from headrace.bulk.decode.schema import COLUMNS
from headrace.bulk.decode.text_maps import TEXT, PropertyColumn, maps_of
from headrace.errors import BrokerError
from headrace.wire.amqp.content import OVERHEAD, body_of
from headrace.wire.amqp.properties import FIELDS, SHORT, TABLE, HeaderTable

_PAYLOAD = 7  # where a frame's payload begins
_BODY_SIZE = _PAYLOAD + 4
_FLAGS = _PAYLOAD + 12  # what comes before it is class, weight and the size of the body
_LAST_SECOND = 253_402_300_799  # of the year 9999
_LOW_BELOW, _HIGH_FROM = 4, 6  # AMQP priorities: 4, 5 and none are middle

Maker: TypeAlias = Callable[[Bytes, dict[str, PropertyColumn], int], pa.Array]


def header_ends(contents: Bytes) -> Places:
    """Where the header frame of each content ends, by its length; the rows begin with the frames.
    Far behind everything where a header has no room for its fields of fixed size."""
    sizes = contents[:, 3:_PAYLOAD].view(">u4")[:, 0].astype(np.int64)
    return np.where(sizes + _PAYLOAD < _FLAGS + 2, 1 << 40, sizes + OVERHEAD)


class ContentColumns:
    """The columns of some messages of a queue, each made when it is asked for."""

    def __init__(self, rows: MessageRows) -> None:
        self._rows = rows
        refuse(rows, rows.lengths <= _FLAGS + 2)
        self._headers = read(rows.data, ">u4", rows.starts + 3)  # sizes of the header payloads
        too_short = self._headers + _PAYLOAD < _FLAGS + 2
        refuse(rows, too_short | (self._headers + OVERHEAD > rows.lengths))

    def make(self, name: str) -> pa.Array:
        if name == "body":
            return self._bodies()
        if name in ("key", "tags"):  # queues have neither
            return pa.nulls(len(self._rows), pa.string())
        return self._by_flags(_MAKERS[name], COLUMNS[name])

    @cached_property
    def _groups(self) -> list[tuple[Places, dict[str, PropertyColumn]]]:
        """Messages with the same flags: which rows they are, and their fields."""
        rows = self._rows
        flags = read(rows.data, ">u2", rows.starts + _FLAGS)
        values = rows.starts + _FLAGS + 2
        groups = []
        malformed = np.zeros(len(rows), np.bool_)
        for one in distinct(flags):
            where = np.flatnonzero(flags == one)
            stops = rows.starts[where] + _PAYLOAD + self._headers[where]
            fields, fit = fields_of(rows.data, one, values[where], stops)
            malformed[where] = ~fit
            groups.append((where, fields))
        refuse(rows, malformed)
        return groups

    def _by_flags(self, make: Maker, kind: pa.DataType) -> pa.Array:
        """Made for each group, put back in order."""
        groups = self._groups
        try:
            made = [make(self._rows.data, fields, len(where)) for where, fields in groups]
        except BrokerError:
            raise self._undecodable() from None
        made = [one if one.type == kind else one.cast(kind) for one in made]
        if len(made) == 1:
            return made[0]
        order = np.argsort(np.concatenate([where for where, _ in groups]))
        return pa.concat_arrays([*made, pa.array([], kind)]).take(pa.array(order))

    def _undecodable(self) -> MalformedContent:
        """The first message whose headers cannot be decoded."""
        found, data = [], self._rows.data.data
        for where, fields in self._groups:
            table = fields.get("headers")
            for at, row in enumerate(where.tolist() if table is not None else ()):
                assert table is not None
                start = int(table.starts[at])
                try:
                    _decode(bytes(data[start : start + int(table.lengths[at])]))
                except BrokerError:
                    found.append(row)
                    break
        return MalformedContent(int(self._rows.offsets[min(found)]))

    def _bodies(self) -> pa.Array:
        rows = self._rows
        sizes = read(rows.data, ">u8", rows.starts + _BODY_SIZE)
        begins = rows.starts + OVERHEAD + self._headers
        frames = np.where(sizes > 0, sizes + OVERHEAD, 0)
        whole = self._headers + OVERHEAD + frames == rows.lengths
        framed = whole & (sizes > 0)  # behind an empty body nothing may follow at all
        whole &= (sizes == 0) | (read(rows.data, ">u4", np.where(framed, begins, 0) + 3) == sizes)
        if whole.all():
            return pick(rows.data, np.where(sizes > 0, begins + _PAYLOAD, 0), sizes)
        return self._joined(begins, sizes, whole)

    def _joined(self, begins: Places, sizes: Places, whole: npt.NDArray[np.bool_]) -> pa.Array:
        """Bodies of several frames have to be put together, one by one."""
        rows = self._rows
        picked = pick(
            rows.data,
            np.where(whole & (sizes > 0), begins + _PAYLOAD, 0),
            np.where(whole, sizes, 0),
        )
        bodies = picked.to_pylist()
        for row in np.flatnonzero(~whole).tolist():
            start = int(rows.starts[row])
            try:
                bodies[row] = body_of(rows.data[start : start + int(rows.lengths[row])].tobytes())
            except BrokerError:
                raise MalformedContent(int(rows.offsets[row])) from None
        return pa.array(bodies, pa.binary())


def _born(data: Bytes, fields: dict[str, PropertyColumn], n: int) -> pa.Array:
    """The timestamp property counts seconds; what no calendar knows is left out."""
    field = fields.get("timestamp")
    if field is None:
        return pa.nulls(n, COLUMNS["born"])
    seconds = field.numbers(data)
    wrong = (seconds < 0) | (seconds > _LAST_SECOND)
    return pa.array(np.where(wrong, 0, seconds) * 1_000_000, mask=wrong).cast(COLUMNS["born"])


def _lanes(data: Bytes, fields: dict[str, PropertyColumn], n: int) -> pa.Array:
    field = fields.get("priority")
    if field is None:
        return pa.repeat(pa.scalar("middle"), n)
    numbers = field.numbers(data)
    lanes = np.where(numbers < _LOW_BELOW, 0, np.where(numbers < _HIGH_FROM, 1, 2))
    return pa.array(["low", "middle", "high"]).take(pa.array(lanes))


def _message_ids(data: Bytes, fields: dict[str, PropertyColumn], n: int) -> pa.Array:
    field = fields.get("message_id")
    return pa.nulls(n, pa.string()) if field is None else field.texts(data)


def fields_of(
    data: Bytes, flags: int, at: Places, stops: Places
) -> tuple[dict[str, PropertyColumn], npt.NDArray[np.bool_]]:
    """The fields that ``flags`` announce, and whether they fit; ``at`` is where the values of each
    message begin, ``stops`` where they have to end."""
    found: dict[str, PropertyColumn] = {}
    fit = np.ones(len(at), np.bool_)
    for name, flag, width in FIELDS:
        if not flags & flag:
            continue
        fit &= at < stops
        at = np.where(fit, at, stops)
        if width == SHORT:
            lengths = read(data, ">u1", at)
            at = at + 1
        elif width == TABLE:
            lengths = read(data, ">u4", at)
            at = at + 4
        else:
            lengths = np.full(len(at), width, np.int64)
        found[name] = PropertyColumn(at, lengths, TEXT if width == SHORT else width)
        at = at + lengths
    return found, fit & (at == stops)


def _maps(data: Bytes, fields: dict[str, PropertyColumn], n: int) -> pa.Array:
    """All properties as text under their own names, then the headers under theirs."""
    plain = {name: field for name, field in fields.items() if name != "headers"}
    return maps_of(data, n, plain, fields.get("headers"), _decode)


def _decode(table: bytes) -> dict[str, object]:
    return HeaderTable(table).as_dict()


_MAKERS: dict[str, Maker] = {
    "born": _born,
    "priority": _lanes,
    "message_id": _message_ids,
    "properties": _maps,
}
