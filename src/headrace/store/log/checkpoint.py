"""Checkpoints: the state of every queue at one position, so that recovery scans only what follows.

magic 8 bytes | u32 crc32 of the rest | u32 flags (1 = clean end) | u64 position | u64 queues
queues x { u64 id, u64 next offset, u64 floor, u32 ranges, u32 returned,
           ranges x { u64 start, u64 stop }, returned x { u64 start, u64 stop, u64 count } }
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import NamedTuple
from zlib import crc32

from headrace.errors import StoreError
from headrace.model.intervals import Intervals
from headrace.store.disk import Disk, temporary_name
from headrace.store.failpoints import passing
from headrace.store.log.index import QueueIndex

NAME = "checkpoint"
MAGIC = b"HRCHKPT1"
_HEAD = Struct("<8sIIQQ")
_QUEUE = Struct("<QQQII")
_RANGE = Struct("<QQ")
_RETURNED = Struct("<QQQ")
_CLEAN = 1


class Checkpoint(NamedTuple):
    position: int
    clean: bool
    queues: dict[int, QueueIndex]


def checkpoint_bytes(position: int, queues: Mapping[int, QueueIndex], *, clean: bool) -> bytes:
    parts = []
    for number, queue in queues.items():
        queue.prune_returned()
        ranges = list(queue.settled.ranges())
        parts.append(
            _QUEUE.pack(
                number, queue.next_offset, queue.settled.floor, len(ranges), len(queue.returned)
            )
        )
        parts += [_RANGE.pack(*one) for one in ranges]
        parts += [_RETURNED.pack(*one) for one in queue.returned]
    body = b"".join(parts)
    rest = _HEAD.pack(b"", 0, _CLEAN if clean else 0, position, len(queues))[12:] + body
    return MAGIC + crc32(rest).to_bytes(4, "little") + rest


def read_checkpoint(data: bytes) -> Checkpoint:
    """Raises StoreError when it is damaged."""
    try:
        magic, crc, flags, position, count = _HEAD.unpack_from(data)
        if magic != MAGIC or crc32(data[12:]) != crc:
            raise StoreError("the checkpoint is damaged")
        at = _HEAD.size
        queues: dict[int, QueueIndex] = {}
        for _ in range(count):
            number, next_offset, floor, ranges, returned = _QUEUE.unpack_from(data, at)
            at += _QUEUE.size
            stop = at + ranges * _RANGE.size
            settled = Intervals(floor, _RANGE.iter_unpack(data[at:stop]))
            queue = QueueIndex(next_offset, settled)
            at = stop + returned * _RETURNED.size
            queue.returned = list(_RETURNED.iter_unpack(data[stop:at]))
            queues[number] = queue
    except StructError as error:
        raise StoreError(f"the checkpoint is damaged: {error}") from error
    return Checkpoint(position, bool(flags & _CLEAN), queues)


def write_checkpoint(disk: Disk, data: bytes) -> None:
    """Replace the checkpoint; whatever happens meanwhile, the old or the new one is there."""
    passing("checkpoint.write")
    temporary = temporary_name(disk, NAME)
    file = disk.create(temporary)
    try:
        file.write(data, 0)
        passing("checkpoint.written")
        file.sync()
        passing("checkpoint.synced")
    finally:
        file.close()
    disk.rename(temporary, NAME)
    passing("checkpoint.renamed")
    disk.sync_directory()
    passing("checkpoint.done")


def load_checkpoint(disk: Disk) -> Checkpoint | None:
    if NAME not in disk.names():
        return None
    file = disk.open(NAME)
    try:
        return read_checkpoint(file.read(file.size(), 0))
    finally:
        file.close()
