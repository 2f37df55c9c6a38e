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
    stops = (starts + lengths).tolist()
    return pa.array(
        [bytes(data.data[a:b]) for a, b in zip(starts.tolist(), stops, strict=True)], pa.binary()
    )


def _copied(data: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """Byte by byte: for short values."""
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
