"""Values picked out of a mapped file at many places at once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]

_COMPARED = 32  # names and tokens that all messages of a producer share
_SHORT = 16  # bytes of a value, on average
_INLINE = 12  # views of at most that many bytes hold them themselves
# What of the 12 inline bytes a value of each length has; the others must be 0.
_MASKS = np.array(
    [[0xFF if byte < length else 0 for byte in range(_INLINE)] for length in range(_INLINE + 1)],
    np.uint8,
).view(np.uint32)


def numbers(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """The number that begins at each byte, e.g. of kind ">u4"; nothing is copied."""
    dtype = np.dtype(kind)
    count = max(len(data) - dtype.itemsize + 1, 0)
    return np.ndarray((count,), dtype, buffer=data.data, strides=(1,))


def read(data: Bytes, kind: str, at: Places) -> Places:
    """The numbers of that kind at these places."""
    return numbers(data, kind)[at].astype(np.int64)


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """All values that occur; mostly it is one."""
    first: int = values[0].item()
    return [first] if (values == first).all() else np.unique(values).tolist()


def spread(counts: Places) -> tuple[Places, Places]:
    """For ``counts[i]`` rows of each i: which i a row belongs to, and its number within it."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    begins = np.cumsum(counts) - counts
    return owner, np.arange(len(owner), dtype=np.int64) - begins[owner]


def pick(data: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """The bytes at each start, as an Arrow array of binary: copied once."""
    if int(lengths.sum()) <= _SHORT * len(lengths):
        return _copied(data, starts, lengths)
    return _views(data, starts, lengths).cast(pa.binary())


def _copied(data: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """Byte by byte: for short values, where views cost more."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    at = np.repeat(starts - offsets[:-1], lengths)
    at += np.arange(len(at))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[at])]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def is_constant(data: Bytes, starts: Places, lengths: Places) -> bool:
    """Whether the bytes at each start are the same; only short ones are compared."""
    if not len(starts):
        return False
    length = int(lengths[0])
    if length > _COMPARED or not (lengths == length).all():
        return False
    first = int(starts[0])
    return all((data[starts + at] == data[first + at]).all() for at in range(length))


def pick_text(
    data: Bytes, starts: Places, lengths: Places, missing: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """The same as text; what is not UTF-8 is shown with replacement characters."""
    if missing is None and is_constant(data, starts, lengths):
        text = bytes(data[int(starts[0]) : int(starts[0] + lengths[0])]).decode("utf-8", "replace")
        return pa.repeat(pa.scalar(text, pa.string()), len(starts))
    found = pick(data, starts, lengths)
    try:
        texts = found.cast(pa.string())
    except pa.ArrowInvalid:
        shown = [one.decode("utf-8", "replace") for one in found.to_pylist()]
        texts = pa.array(shown, pa.string())
    if missing is None or not missing.any():
        return texts
    return pa.compute.if_else(pa.array(~missing), texts, pa.scalar(None, pa.string()))


def _views(data: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """A binary_view array over ``data``: 16 bytes per value, no copy of long ones."""
    views = np.zeros((len(starts), 4), dtype=np.uint32)
    views[:, 0] = lengths
    words = numbers(data, "<u4")
    inside = starts + _INLINE <= len(data)
    safe = starts if inside.all() else np.where(inside, starts, 0)
    long = lengths > _INLINE
    if len(words):
        views[:, 1] = words[safe]
        _fill_short(views, words, safe, lengths, np.flatnonzero(~long))
    views[long, 2] = 0  # the only buffer
    views[long, 3] = starts[long]
    raw = views.view(np.uint8)
    for row in np.flatnonzero(~inside).tolist():  # the last few of a file
        length, start = int(lengths[row]), int(starts[row])
        shown = min(length, 4 if length > _INLINE else _INLINE)
        raw[row, 4 : 4 + shown] = data[start : start + shown]
        if length <= _INLINE:
            raw[row, 4 + length :] = 0
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers)


def _fill_short(
    views: npt.NDArray[np.uint32],
    words: npt.NDArray[Any],
    starts: Places,
    lengths: Places,
    short: Places,
) -> None:
    """Values that are held in their views."""
    if not len(short):
        return
    masks, at = _MASKS[lengths[short]], starts[short]
    views[short, 1] &= masks[:, 0]
    views[short, 2] = words[at + 4] & masks[:, 1]
    views[short, 3] = words[at + 8] & masks[:, 2]
