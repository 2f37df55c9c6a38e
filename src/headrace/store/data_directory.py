"""The data directory: its lock, and the `format` file with its version.

Version 1 seeds the checksums of records with the low half of a segment's base position, version 2
with all of it. A directory that began as version 1 keeps its segments, so the file has the position
from which on segments use the full seed. That number has a checksum: with a wrong one no record
could be read.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path
from zlib import crc32

from headrace.errors import ConfigError, StoreError
from headrace.store.disk import make_directory, sync_directory, sync_parent, write_file
from headrace.store.log.segment import SUFFIX
from headrace.store.sqlite.metadata import FILE_NAME

FORMAT_FILE = "format"
_VERSION_1 = b"headrace 1"
_VERSION_2 = re.compile(rb"(headrace 2\n(\d{1,20}) )([0-9a-f]{8})\n")
_LATER = re.compile(rb"headrace (\d{1,9})\n?")


class DamagedFormat(StoreError):
    """The file is no format of any version: a repair writes it again."""


def read_format(directory: Path) -> int | None:
    """From which position on segments have the whole seed; None in a directory of version 1.

    Raises StoreError for a format that this version does not know, DamagedFormat for none at all.
    """
    try:
        data = (directory / FORMAT_FILE).read_bytes()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        data = b""  # a bad sector: a new file takes its place
    if data.strip() == _VERSION_1:
        return None
    found = _VERSION_2.fullmatch(data)
    if found is not None and b"%08x" % crc32(found[1]) == found[3]:
        return int(found[2])
    later = _LATER.fullmatch(data)
    if later is not None and int(later[1]) > 2:
        raise StoreError(
            f"{directory} has format '{data.decode().strip()}'; this version of Headrace knows "
            "'headrace 1' and 'headrace 2'"
        )
    raise DamagedFormat(
        f"{directory / FORMAT_FILE} is damaged; "
        f"`headrace fsck {directory} --repair` writes the format again"
    )


def format_bytes(format_2_from: int) -> bytes:
    text = b"headrace 2\n%d " % format_2_from
    return b"%s%08x\n" % (text, crc32(text))


def write_format(directory: Path, format_2_from: int) -> None:
    """All of it or nothing: on a full disk an empty one would be left, of no known format."""
    new = directory / f"{FORMAT_FILE}.new"
    try:
        write_file(new, format_bytes(format_2_from), replace=True)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    new.rename(directory / FORMAT_FILE)
    sync_directory(directory)


JOURNAL = "journal"
CACHE_LABEL = "shard-cache"  # the directory is a cache, and of which shard
_LOCK = "lock"
_CLOCK = "clock"
_CLOCK_SIZE = 16


def require_metadata(path: Path) -> None:
    """StoreError when there are messages, and nothing that says which queues they are in.

    No crash does that: meta.db is on disk before the first message. Without it all messages would
    be those of queues that no longer exist, and be cleared away.
    """
    file = path / FILE_NAME
    if file.exists() and file.stat().st_size:
        return
    if any(one.stat().st_size for one in (path / JOURNAL).glob(f"*{SUFFIX}")):
        what = "empty" if file.exists() else "missing"
        raise StoreError(
            f"{file} is {what}, and {JOURNAL} beside it has messages whose queues only it knows: "
            "put it back, or restore a backup with `headrace restore`; nothing was changed"
        )


def lock_directory(path: Path, stack: ExitStack, *, create: bool) -> None:
    """Lock a data directory until the stack is closed. BlockingIOError when another has it.

    The directory itself is locked, since a lock file can be removed while it is held; and the
    file, because versions before this one look at nothing else. A copy has none until ``create``.
    """
    targets = [(path, os.O_RDONLY | os.O_DIRECTORY)]
    if create or (path / _LOCK).exists():
        targets.append((path / _LOCK, os.O_CREAT | os.O_RDWR if create else os.O_RDONLY))
    for target, flags in targets:
        fd = os.open(target, flags | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class DataDirectory:
    """Locked while it is open. The lock ends with the process, however that ends."""

    def __init__(self, path: Path, locks: ExitStack | None = None) -> None:
        """``locks``: those of a shard's cache, which is locked already."""
        self.path = path
        self._locks = locks or ExitStack()
        self.format_2_from: int | None = None  # None: version 1
        try:
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(path))
            make_directory(path)
            path.chmod(0o700)
            if locks is None:
                lock_directory(path, self._locks, create=True)
                if (path / CACHE_LABEL).exists():
                    raise ConfigError(f"data directory {path} is the cache of a shard: use --share")
            self._check_format()
        except BlockingIOError as error:
            self.close()
            raise ConfigError(f"data directory {path} is in use by another broker") from error
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot use data directory {path}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def _check_format(self) -> None:
        try:
            self.format_2_from = read_format(self.path)
        except FileNotFoundError:
            others = {entry.name for entry in self.path.iterdir()}
            if {"meta.db", "journal"} & others:
                raise ConfigError(
                    f"data directory {self.path} has no format file; "
                    f"`headrace fsck {self.path} --repair` writes it again"
                ) from None
            sync_parent(self.path)  # an earlier start may have ended before it did that
            self.save_format(0)
        except StoreError as error:
            raise ConfigError(f"data directory {error}") from error

    def save_format(self, format_2_from: int) -> None:
        """From now on it is a directory of version 2."""
        if self.format_2_from != format_2_from:
            write_format(self.path, format_2_from)
            self.format_2_from = format_2_from

    def saved_time(self) -> int | None:
        """The time that was noted last, in ms since 1970; None when there is none."""
        try:
            text = (self.path / _CLOCK).read_bytes()
        except OSError:
            return None
        return int(text) if text.strip().isdigit() and len(text) == _CLOCK_SIZE else None

    def save_time(self, ms: int) -> None:
        """Note that it is this late. Not synced, and no harm if it fails: it only bounds doubts."""
        with suppress(OSError):
            flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
            fd = os.open(self.path / _CLOCK, flags, 0o600)
            try:
                os.pwrite(fd, b"%015d\n" % ms, 0)
            finally:
                os.close(fd)

    def close(self) -> None:
        self._locks.close()
