"""The few file operations the log needs, behind one class, so that a test can be the disk.

Nothing here retries or hides an error: what a failed write or sync means is the caller's decision.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Protocol, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

PAGE = 4096  # what is given up when the disk cannot read a part of it
LARGEST_HOLE = 1 << 28  # in a file; what lies behind a larger one was not written by us
MAX_OPEN = 48  # files of one directory
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
FULL = (errno.ENOSPC, errno.EDQUOT)


class File(Protocol):
    """A file that can be read and written until it is closed."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of it."""

    def read(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""

    def sync(self) -> None:
        """Return once everything written is on the disk."""

    def size(self) -> int: ...

    def data_end(self) -> int:
        """Where its data ends: behind it is nothing but a hole."""

    def truncate(self, size: int) -> None: ...

    def descriptor(self) -> AbstractContextManager[int]:
        """Its descriptor, for another process that reads by itself."""

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


class OpenFiles:
    """A pool of descriptors: a file that was not used for long is closed, and opened when needed.

    The log has a file per 32 MiB, far more than a process may have open. Files in use, and
    those with unsynced writes (their errors are reported to an open descriptor only), stay open.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # the loop reads while the writer's thread writes
        self._open: OrderedDict[RealFile, None] = OrderedDict()  # the latest used last

    def take(self, file: RealFile) -> int:
        """A descriptor that stays valid until give_back()."""
        with self._lock:
            if file.fd < 0:
                if file.is_closed:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(file.path))
                file.fd = self.with_free_descriptor(lambda: os.open(file.path, file.flags))
            self._open[file] = None
            self._open.move_to_end(file)
            file.users += 1
            while len(self._open) > MAX_OPEN and self._close_one():
                pass
            return file.fd

    def release(self, file: RealFile) -> None:
        with self._lock:
            file.users -= 1

    def close(self, file: RealFile) -> None:
        with self._lock:
            file.is_closed = True
            self._open.pop(file, None)
            if file.fd >= 0:
                os.close(file.fd)
                file.fd = -1

    def with_free_descriptor(self, action: Callable[[], T]) -> T:
        """Do what needs a descriptor; when there is none, ours are closed one by one for it."""
        while True:
            try:
                return action()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._close_one():
                    raise

    def _close_one(self) -> bool:
        """Close the file that was not used for longest; False when all are needed."""
        with self._lock:
            for file in self._open:
                if not file.users:
                    del self._open[file]
                    os.close(file.fd)
                    file.fd = -1
                    return True
            return False


class RealFile:
    """A file of the operating system, open while it is used."""

    __slots__ = ("_pool", "fd", "flags", "is_closed", "is_dirty", "path", "users")

    def __init__(self, pool: OpenFiles, path: Path, fd: int = -1, flags: int = os.O_RDWR) -> None:
        self._pool = pool
        self.path = path
        self.fd = fd
        self.flags = flags | os.O_CLOEXEC
        self.users = 0
        self.is_closed = False
        self.is_dirty = False  # has writes that are not synced
        with self.descriptor():  # an error shows at once
            pass

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        fd = self._pool.take(self)
        try:
            yield fd
        finally:
            self._pool.release(self)

    def write(self, data: bytes, offset: int) -> None:
        self._keep_open()
        write_all(self.fd, data, offset)

    def read(self, size: int, offset: int) -> bytes:
        parts = []
        fd = self._pool.take(self)
        try:
            while size > 0:
                part = os.pread(fd, size, offset)
                if not part:
                    break
                parts.append(part)
                offset += len(part)
                size -= len(part)
        finally:
            self._pool.release(self)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sync(self) -> None:
        self._keep_open()
        os.fdatasync(self.fd)
        self.is_dirty = False
        self._pool.release(self)

    def _keep_open(self) -> None:
        """Until it is synced: the pool does not close it."""
        if not self.is_dirty:
            self._pool.take(self)
            self.is_dirty = True

    def size(self) -> int:
        with self.descriptor() as fd:
            return os.fstat(fd).st_size

    def data_end(self) -> int:
        with self.descriptor() as fd:
            end = 0
            for start, stop in extents(fd):
                if start - end > LARGEST_HOLE:
                    break
                end = stop
            return end

    def truncate(self, size: int) -> None:
        self._keep_open()
        os.ftruncate(self.fd, size)

    def close(self) -> None:
        self._pool.close(self)


def read_skipping_errors(
    file: File, size: int, offset: int, cannot: Callable[[int, int], None]
) -> bytes:
    """As read(), with 0xff for pages that the disk cannot read; ``cannot`` gets start and stop."""
    try:
        return file.read(size, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    end = offset + size
    middle = min((offset + size // 2 + PAGE - 1) // PAGE, (end - 1) // PAGE) * PAGE
    if middle <= offset:
        cannot(offset, end)
        return b"\xff" * size
    first = read_skipping_errors(file, middle - offset, offset, cannot)
    return first + read_skipping_errors(file, end - middle, middle, cannot)


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


def write_all(fd: int, data: bytes, offset: int = 0) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        offset += written
        view = view[written:]


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file for its owner alone, on the disk when this returns. It must be new, unless it is
    to ``replace`` what is there."""
    flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | (os.O_TRUNC if replace else os.O_EXCL)
    fd = os.open(path, flags, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Make it, for its owner alone, with its parents. A power cut does not take it away again."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An empty one may be what a start left that was interrupted before the sync.
    if missing or not os.listdir(path):
        for one in missing or [path]:
            sync_parent(one)


def sync_parent(path: Path) -> None:
    """Return once the name of a directory is on the disk."""
    with suppress(PermissionError):  # a parent that may be written to, and not be read
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Return once creations, renames and removals are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def copy_readable(source: Path, target: Path) -> None:
    """Copy a file into a new, private one; what cannot be read becomes zeros."""
    with source.open("rb", buffering=0) as origin:
        size = os.fstat(origin.fileno()).st_size
        fd = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as copy:
            for offset in range(0, size, 4096):
                try:
                    copy.write(os.pread(origin.fileno(), 4096, offset))
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    copy.write(bytes(4096))


class RealDisk:
    """A directory of the operating system."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files = OpenFiles()
        make_directory(directory)

    def names(self) -> Iterator[str]:
        entries = self._files.with_free_descriptor(lambda: os.scandir(self.directory))
        return iter(sorted(entry.name for entry in entries))

    def create(self, name: str, size: int = 0) -> RealFile:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        path = self.directory / name
        fd = self._files.with_free_descriptor(lambda: os.open(path, flags, 0o600))
        if size:
            try:
                os.posix_fallocate(fd, 0, size)
            except OSError:
                os.close(fd)
                os.unlink(path)
                raise
        return RealFile(self._files, path, fd)

    def open(self, name: str) -> RealFile:
        return RealFile(self._files, self.directory / name)

    def rename(self, old: str, new: str) -> None:
        os.replace(self.directory / old, self.directory / new)

    def remove(self, name: str) -> None:
        os.unlink(self.directory / name)

    def sync_directory(self) -> None:
        self._files.with_free_descriptor(lambda: sync_directory(self.directory))
