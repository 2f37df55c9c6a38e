"""Makes a damaged log consistent again. Good messages are not touched.

Every damaged byte is copied to lost+found first. Then, in this order, so that a crash leaves
something that recovery understands: unreadable ranges become empty records of the same size,
a new checkpoint takes over everything known, unfinished ends are cut, index files are made again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from headrace.errors import StoreError
from headrace.store.data_directory import FORMAT_FILE, JOURNAL, write_format
from headrace.store.disk import RealDisk, read_skipping_errors, temporary_name, write_file
from headrace.store.log import record as r
from headrace.store.log.checkpoint_file import Checkpoint, checkpoint_bytes, write_checkpoint
from headrace.store.log.queue_index import QueueEntry, QueueIndex
from headrace.store.log.segment import (
    SegmentRecord,
    base_of,
    index_bytes,
    index_name,
    leftovers,
    segment_name,
    walk,
    write_index,
)
from headrace.store.sqlite.database import LOST_AND_FOUND
from headrace.store.tools.findings import DamagedRange, Findings, RepairAction, SegmentFindings
from headrace.store.tools.fsck import check
from headrace.store.tools.metadata_repair import repair_metadata
from headrace.wire.record_layout import inner_seed

_WHOLE_FILES = (RepairAction.COPY, RepairAction.RENAME, RepairAction.MOVE)
_CHUNK = 1 << 20


def repair(path: Path, findings: Findings) -> list[str]:
    """Do what the findings ask for; returns what was done. The directory must be held."""
    try:
        done = [*_repair_files(path, findings)]
        if done:
            findings = check(path)
        return [*done, *repair_metadata(path, findings), *_Repair(path, findings).run()]
    except OSError as error:
        raise StoreError(f"the repair of {path} stopped: {error}") from error


def _repair_files(path: Path, findings: Findings) -> Iterator[str]:
    """Files as a whole: what is left is checked again after that."""
    places = [one for one in findings.places if one.remedy in _WHOLE_FILES]
    for place in places:
        if place.remedy is RepairAction.RENAME:  # two may have been swapped
            (path / place.file).rename(path / f"{place.file}.moved")
    for file in {one.file for one in places if one.remedy is RepairAction.COPY}:
        _copy_skipping_errors(path / file)
        yield f"copied {file} around what the disk cannot read"
    for place in places:
        if place.remedy is RepairAction.RENAME:
            (path / f"{place.file}.moved").rename(path / JOURNAL / place.target)
            yield f"renamed {place.file} to {place.target}"
        elif place.remedy is RepairAction.MOVE:
            (path / LOST_AND_FOUND).mkdir(mode=0o700, exist_ok=True)
            (path / place.file).rename(path / LOST_AND_FOUND / Path(place.file).name)
            yield f"moved {place.file} to {LOST_AND_FOUND}"


def _copy_skipping_errors(path: Path) -> None:
    disk = RealDisk(path.parent)
    new = temporary_name(disk, path.name)
    with closing(disk.open(path.name)) as file, closing(disk.create(new)) as copy:
        for at in range(0, file.data_end(), _CHUNK):
            size = min(_CHUNK, file.data_end() - at)
            copy.write(read_skipping_errors(file, size, at, lambda start, stop: None), at)
        copy.truncate(file.size())
        copy.sync()
    disk.rename(new, path.name)
    disk.sync_directory()


class _Repair:
    def __init__(self, path: Path, findings: Findings) -> None:
        self._path = path
        self._findings = findings
        elsewhere = (RepairAction.NONE, RepairAction.ACCEPT)
        self._places = [one for one in findings.places if one.remedy not in elsewhere]
        ends = [one.base + one.size for one in findings.segments]
        self._position = max([findings.position, *ends])
        known = findings.state.format_2_from
        self._format_2_from = self._position if known is None else known

    def run(self) -> Iterator[str]:
        for place in self._findings.places:
            if place.remedy is RepairAction.NONE:
                yield f"{place.file} cannot be repaired: restore a backup"
        if not self._places and not self._findings.notes:
            return
        # First: what is written here is of version 2.
        write_format(self._path, self._format_2_from)
        yield f"wrote {FORMAT_FILE}"
        self._places = [place for place in self._places if place.file != FORMAT_FILE]
        for place in self._places:
            yield from self._save_damaged_bytes(place)
        disk = RealDisk(self._path / JOURNAL)
        for place in self._places:
            yield from self._fill(place)
            yield from self._settle(place)
            yield from self._raise(place)
        yield self._write_checkpoint(disk)
        for segment in self._findings.segments:
            yield from self._cut(disk, segment)
            yield from self._renew_index(disk, segment)
        yield from self._remove_leftovers(disk)
        disk.sync_directory()

    def _save_damaged_bytes(self, place: DamagedRange) -> Iterator[str]:
        if not place.size or place.file.endswith(".idx"):
            return  # an index holds nothing of its own
        directory = self._path / LOST_AND_FOUND
        directory.mkdir(mode=0o700, exist_ok=True)
        with (self._path / place.file).open("rb") as file:
            file.seek(place.offset)
            data = file.read(place.size)
        copy = directory / f"{Path(place.file).stem}-{place.offset}.bin"
        write_file(copy, data, replace=True)
        yield f"saved {len(data)} bytes in {LOST_AND_FOUND}/{copy.name}"

    def _fill(self, place: DamagedRange) -> Iterator[str]:
        if place.remedy is not RepairAction.FILL:
            return
        base = base_of(Path(place.file).name)
        assert base is not None
        path = self._path / place.file
        data = path.read_bytes()
        seed = self._findings.state.seed(base)
        if _is_nested(data, base, seed, place.offset):
            seed = inner_seed(seed)
        with path.open("r+b") as file:
            file.seek(place.offset)
            file.write(r.empty_group(place.size, seed=seed))
            file.flush()
            os.fsync(file.fileno())
        yield f"made {place.size} bytes at {place.offset} of {place.file} an empty record"

    def _settle(self, place: DamagedRange) -> Iterator[str]:
        if place.remedy is not RepairAction.SETTLE:
            return
        for queue, first, stop in place.lost:
            self._findings.state.queues[queue].settled.add(first, stop)
        yield f"marked {place.messages} damaged messages of {place.file} as settled"

    def _raise(self, place: DamagedRange) -> Iterator[str]:
        if place.remedy is RepairAction.RAISE:
            for queue, _, stop in place.lost:
                index = self._findings.state.queues.setdefault(queue, QueueIndex())
                if stop > index.next_offset:
                    index.raise_next_offset(stop)
                yield f"{self._findings.queue_name(queue)} continues at offset {index.next_offset}"

    def _write_checkpoint(self, disk: RealDisk) -> str:
        """Both of them: the older one may know messages that are lost."""
        state = self._findings.state
        for sequence in (state.sequence + 1, state.sequence + 2):
            data = checkpoint_bytes(
                Checkpoint(
                    self._position,
                    state.queues,
                    self._findings.is_clean_end,
                    state.report.begin_epoch,
                    sequence,
                    self._format_2_from,
                    state.metadata_generation,
                    {one.base: one.used for one in self._findings.segments if one.used},
                )
            )
            write_checkpoint(disk, data, sequence)
        return f"wrote the checkpoints for position {self._position}"

    def _cut(self, disk: RealDisk, segment: SegmentFindings) -> Iterator[str]:
        """The end that no record reaches. The space set aside for more goes with it."""
        if segment.used >= segment.size:
            return
        name = segment_name(segment.base)
        if not segment.used:
            disk.remove(name)
            yield f"removed {JOURNAL}/{name}, which has no record"
            return
        with closing(disk.open(name)) as file:
            file.truncate(segment.used)
            file.sync()
        yield f"cut {JOURNAL}/{name} at {segment.used}"

    def _renew_index(self, disk: RealDisk, segment: SegmentFindings) -> Iterator[str]:
        name = index_name(segment.base)
        if not segment.used:
            if name in disk.names():
                disk.remove(name)
            return
        low, high = segment.base, segment.base + segment.used
        entries: list[QueueEntry] = [
            (number, entry)
            for number, index in self._findings.state.queues.items()
            for entry in index.entries()
            if low <= entry.position < high
        ]
        write_index(disk, segment.base, index_bytes(entries, segment.used))
        yield f"wrote {JOURNAL}/{name}"

    def _remove_leftovers(self, disk: RealDisk) -> Iterator[str]:
        bases = {segment.base for segment in self._findings.segments}
        for name in list(leftovers(disk.names(), bases)):
            disk.remove(name)
            yield f"removed {JOURNAL}/{name}"


def _is_nested(data: bytes, base: int, seed: int, at: int) -> bool:
    """Whether that place is inside a group; sums there have another seed."""
    return any(
        isinstance(step, SegmentRecord) and step.at < at < step.at + step.head.size
        for step in walk(data, base, seed)
    )
