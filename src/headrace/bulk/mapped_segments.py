"""Messages of a broker on this machine, read from its files by programs that may open them.

The broker says where the records are and need do nothing more: no process of its own, no copies
through sockets. Other readers, and those that come too late for a file, fetch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from headrace.bulk.client import SegmentFiles
from headrace.bulk.decode.batches import batches_of
from headrace.bulk.read_plan import ReadPlan

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MappedRows:
    """The rows of one answer. `next` is the offset at which to go on."""

    def __init__(self, job: ReadPlan, segments: Sequence[int], files: ExitStack) -> None:
        self._job = job
        self._segments = segments
        self._files = files
        self.next = job.next

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Once: the files are closed at the end."""
        with self._files:
            yield from batches_of(self._job, self._segments)


def open_files(located: SegmentFiles) -> MappedRows | None:
    """None unless all files are here, may be read, and are the broker's own."""
    with ExitStack() as files:
        try:
            if _BOOT_ID.read_text().strip() != located.boot:
                return None  # the broker is on another machine, behind a tunnel
            segments = [_opened(files, *one) for one in located.files]
        except OSError:
            return None
        return MappedRows(ReadPlan.decode(located.job), segments, files.pop_all())


def _opened(files: ExitStack, path: str, device: int, inode: int) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    files.callback(os.close, fd)
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != (device, inode):
        raise FileNotFoundError(path)  # another file of that name, as containers have
    return fd
