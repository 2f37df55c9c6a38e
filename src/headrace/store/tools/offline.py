"""A data directory without its broker: held for a tool, read without a change, its log run by hand.

Reading here never writes: no tail is cut, no file is made, also where recovery would.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

from headrace.errors import BrokerError, StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.data_directory import (
    FORMAT_FILE,
    JOURNAL,
    DamagedFormat,
    lock_directory,
    read_format,
    require_metadata,
)
from headrace.store.disk import OpenFiles, RealFile, copy_readable, data_size
from headrace.store.log.commit_log import CommitLog
from headrace.store.log.segment import base_of
from headrace.store.sqlite.metadata import FILE_NAME, SqliteMetadata

LARGEST_SEGMENT = 1 << 33  # bytes; the size of a record has 32 bits


@contextmanager
def locked(path: Path, *, create: bool = False, strict: bool = True) -> Iterator[None]:
    """Keep brokers away from a data directory. StoreError when one is there, or it is none.

    A copy has no lock file; it gets one only with ``create``, which who writes should ask for.
    """
    check_format(path, strict=strict)
    with ExitStack() as stack:
        try:
            lock_directory(path, stack, create=create)
        except BlockingIOError as error:
            raise StoreError(f"a broker is running on {path}: stop it first") from error
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror}") from error
        yield


def require_plain_files(path: Path) -> None:
    """StoreError when a copy has links to other places, pipes, or files too large to be read."""
    for entry in [*_entries(path), *_entries(path / JOURNAL)]:
        if entry.is_symlink():
            raise StoreError(f"{entry.path} is a symbolic link, which no backup contains")
        if not entry.is_file() and not entry.is_dir():
            raise StoreError(f"{entry.path} is not a regular file")
        if base_of(entry.name) is not None:
            with open(entry.path, "rb") as file:
                if data_size(file.fileno()) > LARGEST_SEGMENT:
                    raise StoreError(f"{entry.path} is larger than any segment")


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(path), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []  # which is found out when it is read


def check_format(path: Path, *, strict: bool = True) -> None:
    """StoreError unless it is a data directory of a format that this version knows.

    A missing file is no obstacle; a damaged one neither, unless ``strict``: fsck writes it again.
    """
    try:
        read_format(path)
    except FileNotFoundError:
        if (path / JOURNAL).is_dir() or (path / FILE_NAME).exists():
            return  # only that file is missing
        raise StoreError(f"{path} is not a Headrace data directory") from None
    except OSError as error:
        raise StoreError(f"cannot read {path / FORMAT_FILE}: {error}") from error
    except DamagedFormat:
        if strict:
            raise


def read_declarations(path: Path) -> Declarations:
    """What is declared, and what is damaged, from a copy of meta.db; StoreError if nothing is."""
    require_metadata(path)
    if not (path / FILE_NAME).exists():
        return Declarations()
    with tempfile.TemporaryDirectory(prefix="headrace-") as name:
        copy = Path(name)
        try:
            for suffix in ("", "-wal"):
                file = path / (FILE_NAME + suffix)
                if file.exists():
                    copy_readable(file, copy / file.name)
            with closing(SqliteMetadata(copy)) as metadata:
                return metadata.load()
        except OSError as error:
            raise StoreError(f"cannot read {file}: {error.strerror}") from error
        except BrokerError as error:
            raise StoreError(str(error).replace(f"{copy}{os.sep}", "")) from error


class _ReadOnlyFile(RealFile):
    """What recovery does to torn tails and groups is left undone."""

    __slots__ = ()

    def size(self) -> int:
        with self.descriptor() as fd:
            return data_size(fd)

    def write(self, data: bytes, offset: int) -> None:
        return

    def sync(self) -> None:
        return

    def truncate(self, size: int) -> None:
        return


class ReadOnlyDisk:
    """The log's directory for recovery that changes nothing, with index files out of sight.

    Without them recovery reads every record, so what it finds does not depend on them.
    """

    def __init__(self, directory: Path, on_open: Callable[[str], None] = lambda name: None) -> None:
        self._directory = directory
        self._on_open = on_open
        self._files = OpenFiles()

    def names(self) -> Iterator[str]:
        if not self._directory.is_dir():
            return iter(())
        found = sorted(entry.name for entry in os.scandir(self._directory) if entry.is_file())
        return (name for name in found if not name.endswith(".idx"))

    def create(self, name: str, size: int = 0) -> RealFile:
        raise StoreError(f"{name} was to be made by a check")

    def open(self, name: str) -> RealFile:
        if name.endswith(".idx"):
            raise FileNotFoundError(name)
        self._on_open(name)
        return _ReadOnlyFile(self._files, self._directory / name, flags=os.O_RDONLY)

    def rename(self, old: str, new: str) -> None:
        raise StoreError(f"{old} was to be renamed by a check")

    def remove(self, name: str) -> None:
        return  # recovery drops empty segments

    def sync_directory(self) -> None:
        return


class LogDriver:
    """Runs a commit log without an event loop: the waiting thread calls the callbacks."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self._callbacks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        log.start(
            self._callbacks.put,
            on_durable=lambda: None,
            on_failure=lambda error: None,  # the log keeps it
            on_full=self._refuse_to_wait,
        )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Make callbacks until the condition holds; StoreError when the log fails."""
        while not condition():
            self._callbacks.get()()
            if self.log.failed is not None:
                raise StoreError(f"the log cannot be written: {self.log.failed}")

    def commit(self) -> None:
        """Everything appended so far is on disk when this returns."""
        self.wait_for(lambda: not self.log.is_writing)
        self.log.flush()
        self.wait_for(lambda: self.log.durable >= self.log.end)

    def _refuse_to_wait(self, full: bool) -> None:
        if full:
            raise StoreError("the disk is full: free space and try again")
