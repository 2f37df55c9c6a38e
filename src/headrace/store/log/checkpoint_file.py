"""Checkpoints: the state of every queue at one position, so that recovery scans only what follows.

magic 8 bytes | u32 crc32 of the rest | u32 flags (1 = clean end, 2 = begin a new epoch)
u64 position | u64 queues | u64 sequence | u64 start of the whole seed | u64 generation of meta.db
u64 segments
segments x { u64 base, u64 bytes written and synced }
queues x { u64 id, u64 next offset, u64 floor, u32 ranges, u32 returned, u32 epochs, u32 0,
           ranges x { u64 start, u64 stop }, returned x { u64 start, u64 stop, u64 count },
           epochs x { u64 number, u64 first offset } }

Two are kept and written in turn. A segment is removed when both say that nothing in it is needed,
so the older one leads to the same state by reading more of the log. Version 1 lacks the second line
from the sequence on, the segments and the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from zlib import crc32

from headrace.errors import StoreError
from headrace.model.intervals import Intervals
from headrace.store.disk import Disk, temporary_name
from headrace.store.failpoints import failpoint
from headrace.store.log.queue_index import QueueIndex

NAMES = ("checkpoint", "checkpoint.1")  # even and odd sequence numbers
MAGIC = b"HRCHKPT2"
_MAGIC_1 = b"HRCHKPT1"
_HEAD = Struct("<8sIIQQ")
_MORE = Struct("<QQQQ")
_QUEUE = Struct("<QQQII")
_EPOCHS = Struct("<II")
_PAIR = Struct("<QQ")
_REQUEUED = Struct("<QQQ")
_CLEAN, _NEW_EPOCH = 1, 2


@dataclass(slots=True)
class Checkpoint:
    """The state of the log at ``position``: what lies before it is on disk and taken over."""

    position: int = 0
    queues: Mapping[int, QueueIndex] = field(default_factory=dict)
    clean: bool = False
    begin_epoch: bool = False  # the next recovery begins a new epoch: set by a restore
    sequence: int = 0
    format_2_from: int | None = None  # None: of version 1
    metadata_generation: int = 0  # of meta.db; 0 = unknown
    segments: Mapping[int, int] = field(default_factory=dict)  # base: bytes that must be there


def checkpoint_bytes(one: Checkpoint) -> bytes:
    parts = [_PAIR.pack(*segment) for segment in one.segments.items()]
    for number, queue in one.queues.items():
        queue.prune_requeued()
        ranges = list(queue.settled.ranges())
        returned, epochs = queue.requeued, queue.epochs
        parts.append(
            _QUEUE.pack(number, queue.next_offset, queue.settled.floor, len(ranges), len(returned))
        )
        parts.append(_EPOCHS.pack(len(epochs), 0))
        parts += [_PAIR.pack(*each) for each in ranges]
        parts += [_REQUEUED.pack(*each) for each in returned]
        parts += [_PAIR.pack(*each) for each in epochs]
    flags = (_CLEAN if one.clean else 0) | (_NEW_EPOCH if one.begin_epoch else 0)
    whole = one.format_2_from or 0
    more = _MORE.pack(one.sequence, whole, one.metadata_generation, len(one.segments))
    head = _HEAD.pack(b"", 0, flags, one.position, len(one.queues))[12:]
    rest = b"".join([head, more, *parts])
    return MAGIC + crc32(rest).to_bytes(4, "little") + rest


def read_checkpoint(data: bytes) -> Checkpoint:
    """Raises StoreError when it is damaged."""
    try:
        magic, crc, flags, position, count = _HEAD.unpack_from(data)
        if magic not in (MAGIC, _MAGIC_1) or crc32(data[12:]) != crc:
            raise StoreError("the checkpoint is damaged")
        found = Checkpoint(position, clean=bool(flags & _CLEAN))
        found.begin_epoch = bool(flags & _NEW_EPOCH)
        at = _HEAD.size
        if magic == MAGIC:
            found.sequence, found.format_2_from, found.metadata_generation, segments = (
                _MORE.unpack_from(data, at)
            )
            at += _MORE.size
            stop = at + segments * _PAIR.size
            found.segments = dict(_PAIR.iter_unpack(data[at:stop]))
            at = stop
        found.queues = _read_queues(data, at, count, has_epochs=magic == MAGIC)
    except StructError as error:
        raise StoreError(f"the checkpoint is damaged: {error}") from error
    return found


def with_new_epoch(data: bytes | None) -> bytes:
    """The checkpoint of a copy, of either version: the next recovery begins a new epoch."""
    data = data or _HEAD.pack(_MAGIC_1, 0, 0, 0, 0)
    magic, _, flags, position, count = _HEAD.unpack_from(data)
    head = _HEAD.pack(magic, 0, flags | _NEW_EPOCH, position, count)
    rest = head[12:] + data[_HEAD.size :]
    return bytes(magic) + crc32(rest).to_bytes(4, "little") + rest


def _read_queues(data: bytes, at: int, count: int, *, has_epochs: bool) -> dict[int, QueueIndex]:
    queues: dict[int, QueueIndex] = {}
    for _ in range(count):
        number, next_offset, floor, ranges, returned = _QUEUE.unpack_from(data, at)
        at += _QUEUE.size
        epochs = 0
        if has_epochs:
            epochs, _zero = _EPOCHS.unpack_from(data, at)
            at += _EPOCHS.size
        stop = at + ranges * _PAIR.size
        queue = QueueIndex(next_offset, Intervals(floor, _PAIR.iter_unpack(data[at:stop])))
        at = stop + returned * _REQUEUED.size
        queue.requeued = list(_REQUEUED.iter_unpack(data[stop:at]))
        stop = at + epochs * _PAIR.size
        queue.epochs = list(_PAIR.iter_unpack(data[at:stop]))
        at = stop
        queues[number] = queue
    return queues


def write_checkpoint(disk: Disk, data: bytes, sequence: int) -> None:
    """Replace the older of the two; whatever happens meanwhile, the newer one is there."""
    failpoint("checkpoint.write")
    temporary = temporary_name(disk, NAMES[0])
    with closing(disk.create(temporary)) as file:
        file.write(data, 0)
        failpoint("checkpoint.written")
        file.sync()
        failpoint("checkpoint.synced")
    disk.rename(temporary, NAMES[sequence % 2])
    failpoint("checkpoint.renamed")
    disk.sync_directory()
    failpoint("checkpoint.done")


def load_checkpoints(disk: Disk) -> tuple[Checkpoint | None, list[tuple[str, str]]]:
    """The newer of the two that can be read, and what is wrong: name of the file, why."""
    found: dict[str, Checkpoint] = {}
    wrong: list[tuple[str, str]] = []
    names = set(disk.names())
    for name in NAMES:
        if name not in names:
            continue
        with closing(disk.open(name)) as file:
            try:
                found[name] = read_checkpoint(file.read(file.size(), 0))
            except (StoreError, OSError) as error:
                wrong.append((name, str(error)))
    newest = max(found.values(), key=lambda one: one.sequence, default=None)
    missing = [name for name in NAMES if name not in names]
    if newest is not None and newest.sequence > 1:
        wrong += [(name, "the file is missing") for name in missing]
    if newest is not None and wrong:
        newest.clean = False  # what cannot be read may have been newer
    return newest, wrong
