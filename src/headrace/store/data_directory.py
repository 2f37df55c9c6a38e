"""The data directory: one broker at a time, and only a format that this version knows."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, suppress
from pathlib import Path

from headrace.errors import ConfigError, StoreError
from headrace.store.disk import make_directory, sync_parent
from headrace.store.format import read_format, write_format
from headrace.store.log.segment import SUFFIX
from headrace.store.sqlite.metadata import FILE_NAME

JOURNAL = "journal"
_LOCK = "lock"
_CLOCK = "clock"
_CLOCK_SIZE = 16


def need_catalogue(path: Path) -> None:
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

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks = ExitStack()
        self.whole_seed_from: int | None = None  # None: version 1
        try:
            if path.exists() and not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(path))
            make_directory(path)
            path.chmod(0o700)
            lock_directory(path, self._locks, create=True)
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
            self.whole_seed_from = read_format(self.path)
        except FileNotFoundError:
            others = {entry.name for entry in self.path.iterdir()}
            if {"meta.db", "journal"} & others:
                raise ConfigError(
                    f"data directory {self.path} has no format file; "
                    f"`headrace fsck {self.path} --repair` writes it again"
                ) from None
            sync_parent(self.path)  # an earlier start may have ended before it did that
            self.note_format(0)
        except StoreError as error:
            raise ConfigError(f"data directory {error}") from error

    def note_format(self, whole_seed_from: int) -> None:
        """From now on it is a directory of version 2; see store/format.py."""
        if self.whole_seed_from != whole_seed_from:
            write_format(self.path, whole_seed_from)
            self.whole_seed_from = whole_seed_from

    def noted_time(self) -> int | None:
        """The time that was noted last, in ms since 1970; None when there is none."""
        try:
            text = (self.path / _CLOCK).read_bytes()
        except OSError:
            return None
        return int(text) if text.strip().isdigit() and len(text) == _CLOCK_SIZE else None

    def note_time(self, ms: int) -> None:
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
