"""The few file operations the journal needs, behind one class, so that a test can be the disk.

Nothing here retries or hides an error: what a failed write or sync means is the caller's decision.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)


class File(Protocol):
    """An open file."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of it."""

    def read(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""

    def sync(self) -> None:
        """Return once everything written is on the disk."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fileno(self) -> int:
        """For another process that reads on its own."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory of files."""

    def names(self) -> Iterator[str]: ...

    def create(self, name: str, size: int = 0) -> File:
        """A new file with ``size`` bytes of zeros, its space set aside."""

    def open(self, name: str) -> File: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces what is there."""

    def remove(self, name: str) -> None: ...

    def sync_directory(self) -> None:
        """Return once creations, renames and removals are on the disk."""


def temporary_name(disk: Disk, name: str) -> str:
    """A free name for the file that will replace ``name``.

    What a crash left there is removed; if that fails, another name is as good.
    """
    for temporary in (f"{name}.new", f"{name}.2.new", f"{name}.3.new"):
        try:
            disk.remove(temporary)
        except FileNotFoundError:
            break
        except OSError as error:
            logger.warning("%s cannot be removed: %s", temporary, error)
        else:
            break
    return temporary


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            offset += written
            view = view[written:]

    def read(self, size: int, offset: int) -> bytes:
        parts = []
        while size > 0:
            part = os.pread(self._fd, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        return self._fd

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def extents(fd: int) -> Iterator[tuple[int, int]]:
    """Where the data of a file lies, start and stop; between them are holes, which are zeros."""
    stop, size = 0, os.fstat(fd).st_size
    while stop < size:
        try:
            start = os.lseek(fd, stop, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # nothing but a hole
        stop = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, stop


def data_size(fd: int) -> int:
    """The size of a file without the hole at its end, which may be larger than the memory."""
    return max((stop for _, stop in extents(fd)), default=0)


class RealDisk:
    """A directory of the operating system."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self) -> Iterator[str]:
        return iter(sorted(entry.name for entry in os.scandir(self.directory)))

    def create(self, name: str, size: int = 0) -> RealFile:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        fd = os.open(self.directory / name, flags, 0o600)
        if size:
            try:
                os.posix_fallocate(fd, 0, size)
            except OSError:
                os.close(fd)
                os.unlink(self.directory / name)
                raise
        return RealFile(fd)

    def open(self, name: str) -> RealFile:
        return RealFile(os.open(self.directory / name, os.O_RDWR | os.O_CLOEXEC))

    def rename(self, old: str, new: str) -> None:
        os.replace(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        os.unlink(self.directory / name)

    def sync_directory(self) -> None:
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
