"""Maps of text for many messages at once.

Messages with the same fields are one group: each field is picked out of all of them together. Only
tables of further names and values are decoded one by one, and each distinct table once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.bulk.decode.gather import Bytes, Places, pick_text, read, spread
from headrace.bulk.decode.schema import PROPERTIES

TEXT = 0
_NUMBERS = {1: ">u1", 8: ">u8"}


@dataclass(frozen=True, slots=True)
class PropertyColumn:
    """One property in all messages of a group: where it is; text, or numbers of that width."""

    starts: Places
    lengths: Places
    width: int = TEXT

    def numbers(self, data: Bytes) -> Places:
        return read(data, _NUMBERS[self.width], self.starts)

    def texts(self, data: Bytes) -> pa.Array:
        if self.width == TEXT:
            return pick_text(data, self.starts, self.lengths)
        return pa.array(self.numbers(data)).cast(pa.string())


Decode = Callable[[bytes], Mapping[str, object]]


def maps_of(
    data: Bytes,
    n: int,
    fields: Mapping[str, PropertyColumn],
    tables: PropertyColumn | None,
    decode: Decode,
) -> pa.Array:
    """For ``n`` messages: all fields as text under their own names, then what is in the tables."""
    keys = [pa.array(list(fields), pa.string())]
    values = [field.texts(data) for field in fields.values()]
    if tables is None and len(fields) == 1:
        offsets = np.arange(n + 1, dtype=np.int32)
        names = pa.repeat(pa.scalar(next(iter(fields)), pa.string()), n)
        return pa.MapArray.from_arrays(pa.array(offsets), names, values[0], PROPERTIES)
    counts = np.full(n, len(fields), np.int64)
    first = np.zeros(n, np.int64)
    if tables is not None:
        found = _decode_tables(data, tables, frozenset(fields), decode)
        keys.append(found.names)
        values.append(found.texts)
        counts += found.counts[found.which]
        first = found.begins[found.which]
    owner, number = spread(counts)
    own = number < len(fields)
    rest = first[owner] + number - len(fields)
    key_at = np.where(own, number, len(fields) + rest)
    value_at = np.where(own, number * n + owner, len(fields) * n + rest)
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        pa.concat_arrays(keys).take(pa.array(key_at)),
        pa.concat_arrays([*values, pa.array([], pa.string())]).take(pa.array(value_at)),
        PROPERTIES,
    )


@dataclass(frozen=True, slots=True)
class _DistinctMaps:
    """Names and values of all distinct tables, end to end."""

    names: pa.Array
    texts: pa.Array
    begins: Places  # of each table
    counts: Places
    which: Places  # table each message has


def _decode_tables(
    data: Bytes, field: PropertyColumn, taken: frozenset[str], decode: Decode
) -> _DistinctMaps:
    view = data.data
    seen: dict[bytes, int] = {}
    rows = unlike_the_one_before(data, field.starts, field.lengths)
    which = np.zeros(len(field.starts), np.int64)
    for row in rows.tolist():
        start = int(field.starts[row])
        table = bytes(view[start : start + int(field.lengths[row])])
        which[row] = seen.setdefault(table, len(seen))
    if len(rows) < len(which):
        marks = np.zeros(len(which), np.int64)
        marks[rows] = rows
        which = which[np.maximum.accumulate(marks)]
    names: list[str] = []
    texts: list[str] = []
    sizes: list[int] = []
    for table in seen:
        items = {_text(name): one for name, one in decode(table).items()}
        names += [f"header.{name}" if name in taken else name for name in items]
        texts += [_text(value) for value in items.values()]
        sizes.append(len(items))
    counts = np.array(sizes, np.int64)
    begins = np.cumsum(counts) - counts
    return _DistinctMaps(
        pa.array(names, pa.string()), pa.array(texts, pa.string()), begins, counts, which
    )


def unlike_the_one_before(data: Bytes, begins: Places, sizes: Places) -> Places:
    """Rows whose bytes differ from those of the row before; the first always does."""
    same: npt.NDArray[np.bool_] = np.zeros(len(begins), np.bool_)
    same[1:] = sizes[1:] == sizes[:-1]
    alive = np.flatnonzero(same)
    for byte in range(int(sizes.max(initial=0))):
        here = alive[sizes[alive] > byte]
        if not len(here):
            break
        differ = here[data[begins[here] + byte] != data[begins[here - 1] + byte]]
        if len(differ):
            same[differ] = False
            alive = alive[same[alive]]
    return np.flatnonzero(~same)


def _text(value: object) -> str:
    """What is not UTF-8 is shown with replacement characters."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, default=_text)  # such as x-death
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
