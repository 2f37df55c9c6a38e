"""Messages of topics as columns: fixed heads, then fields whose lengths are in the heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgpack
import numpy as np
import pyarrow as pa

from headrace.bulk.decode.gather import Bytes, Places, distinct, numbers, pick, pick_text
from headrace.bulk.decode.records import MalformedContent, MessageRows, refuse
from headrace.bulk.decode.schema import COLUMNS, PROPERTIES
from headrace.bulk.decode.text_maps import PropertyColumn, maps_of
from headrace.wire.record_layout import ENTRY_FIELDS, ENTRY_HEAD, ENTRY_HEAD_SIZE, EntryFlags

_LENGTHS = ENTRY_FIELDS[2:7]  # of key, tags, message_id, token, source_ip, in their order
_TYPES = {"B": "u1", "H": "<u2", "I": "<u4", "q": "<i8", "Q": "<u8"}  # NumPy's names of them
_HEAD = np.dtype(
    [(name, _TYPES[code]) for name, code in zip(ENTRY_FIELDS, ENTRY_HEAD.format[1:], strict=True)]
)


_FIELDS_OF: Final = {"born": 0, "key": 1, "tags": 2, "message_id": 3, "properties": 6}


def field_ends(entries: Bytes, columns: Sequence[str]) -> Places:
    """Where the last of these columns ends in each entry, by the lengths in its head, with which
    the rows begin."""
    heads = entries[:, :ENTRY_HEAD_SIZE].view(_HEAD)[:, 0]
    found = np.full(len(entries), ENTRY_HEAD_SIZE, np.int64)
    for name in (*_LENGTHS, "properties")[: max(map(_FIELDS_OF.__getitem__, columns))]:
        found += heads[name]
    return found


class EntryColumns:
    """The columns of some messages of a topic, each made when it is asked for."""

    def __init__(self, rows: MessageRows, lane: str) -> None:
        self._rows = rows
        self._lane = lane
        refuse(rows, rows.lengths < ENTRY_HEAD_SIZE)
        self._heads = numbers(rows.data, f"V{ENTRY_HEAD_SIZE}")[rows.starts].view(_HEAD)
        self._flags = np.ascontiguousarray(self._heads["flags"])
        tables = self._places["properties"]
        refuse(rows, tables.starts + tables.lengths > rows.starts + rows.lengths)

    def make(self, name: str) -> pa.Array:
        if name in _TEXTS:
            return self._text(name, _TEXTS[name])
        return _MAKERS[name](self)

    def priority(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._lane, pa.string()), len(self._rows))

    def born(self) -> pa.Array:
        missing = (self._flags & EntryFlags.BORN) == 0
        if missing.all():
            return pa.nulls(len(missing), COLUMNS["born"])
        return pa.array(self._heads["born"] * 1000, mask=missing).cast(COLUMNS["born"])

    def body(self) -> pa.Array:
        rows = self._rows
        properties = self._places["properties"]
        starts = properties.starts + properties.lengths
        return pick(rows.data, starts, rows.starts + rows.lengths - starts)

    def properties(self) -> pa.Array:
        """With the token and the address of the producer, where they are known."""
        places = self._places
        pattern = (
            (places["token"].lengths > 0) * 1
            + ((self._flags & EntryFlags.SOURCE_IP) > 0) * 2
            + (places["properties"].lengths > 0) * 4
        )
        made, order = [], []
        for one in distinct(pattern):
            where = np.flatnonzero(pattern == one)
            fields = {
                name: _at(places[name], where)
                for bit, name in ((1, "token"), (2, "source_ip"))
                if one & bit
            }
            tables = _at(places["properties"], where) if one & 4 else None
            try:
                made.append(maps_of(self._rows.data, len(where), fields, tables, _decode))
            except ValueError:
                raise self._undecodable() from None
            order.append(where)
        if len(made) == 1:
            return made[0]
        joined = pa.concat_arrays([*made, pa.array([], PROPERTIES)])
        return joined.take(pa.array(np.argsort(np.concatenate(order))))

    def _undecodable(self) -> MalformedContent:
        """The first message whose properties cannot be decoded."""
        table, data = self._places["properties"], self._rows.data.data
        for row in np.flatnonzero(table.lengths).tolist():
            start = int(table.starts[row])
            try:
                _decode(bytes(data[start : start + int(table.lengths[row])]))
            except ValueError:
                return MalformedContent(int(self._rows.offsets[row]))
        raise AssertionError("all properties can be decoded")

    @cached_property
    def _places(self) -> dict[str, PropertyColumn]:
        rows = self._rows
        at = rows.starts + ENTRY_HEAD_SIZE
        found = {}
        for name in _LENGTHS:
            lengths = self._heads[name].astype(np.int64)
            found[name] = PropertyColumn(at, lengths)
            at = at + lengths
        found["properties"] = PropertyColumn(at, self._heads["properties"].astype(np.int64))
        return found

    def _text(self, name: str, flag: int) -> pa.Array:
        place = self._places[name]
        missing = (self._flags & flag) == 0
        if missing.all():
            return pa.nulls(len(missing), pa.string())
        return pick_text(self._rows.data, place.starts, place.lengths, missing)


def _at(field: PropertyColumn, where: Places) -> PropertyColumn:
    return PropertyColumn(field.starts[where], field.lengths[where])


def _decode(table: bytes) -> Mapping[str, object]:
    try:
        value = msgpack.unpackb(table, unicode_errors="replace")
    except msgpack.UnpackException as error:
        raise ValueError(str(error)) from None
    if type(value) is not dict or not all(type(one) is str for one in (*value, *value.values())):
        raise ValueError("the properties of an entry are no map of texts")
    return value


_TEXTS = {"key": EntryFlags.KEY, "tags": EntryFlags.TAGS, "message_id": EntryFlags.MESSAGE_ID}
_MAKERS: dict[str, Callable[[EntryColumns], pa.Array]] = {
    "priority": EntryColumns.priority,
    "born": EntryColumns.born,
    "properties": EntryColumns.properties,
    "body": EntryColumns.body,
}
