"""Copying a data directory while its broker runs, and putting such a copy back.

The log is only appended to, so a copy needs no stop. What could go wrong is that a segment is
deleted meanwhile: its acknowledgements live on in the checkpoint that came before the deletion.
So the checkpoint is read first, then all segments are opened (an open file outlives its name), and
if there is another checkpoint by then, all this begins again; it takes milliseconds.

Positions of readers are taken before the log, so that none is ahead of it; declarations after
it, so that every queue which has messages in it is there.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headrace.errors import StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import CursorRow, PinRow, RetryRow
from headrace.store.data_directory import FORMAT_FILE, JOURNAL, require_metadata
from headrace.store.disk import extents, sync_directory, write_all, write_file
from headrace.store.log.checkpoint_file import NAMES as CHECKPOINTS
from headrace.store.log.checkpoint_file import read_checkpoint, with_new_epoch
from headrace.store.log.segment import INDEX_SUFFIX, SUFFIX, segment_name
from headrace.store.sqlite.metadata import FILE_NAME, SqliteMetadata
from headrace.store.tools.findings import RepairAction
from headrace.store.tools.fsck import check
from headrace.store.tools.offline import check_format, locked, require_plain_files

_ATTEMPTS = 1000
_PAGE = 4096
_CHUNK = 1 << 20

Progress = Callable[[int, int], None]
PositionRow = CursorRow | RetryRow | PinRow


@dataclass(frozen=True, slots=True)
class CopySummary:
    """What a backup or a restore copied."""

    segments: int
    bytes: int


class _Snapshot(NamedTuple):
    """The log at one moment: the checkpoints, and all files they may need, open."""

    checkpoints: dict[str, bytes | None]
    files: dict[str, int]


def backup(path: Path, target: Path, progress: Progress = lambda done, total: None) -> CopySummary:
    """Copy a data directory to ``target``, which must not exist; complete, or not there at all."""
    check_format(path)
    require_metadata(path)
    if target.exists():
        raise StoreError(f"{target} already exists: choose a new directory")
    partial = target.with_name(target.name + ".partial")
    try:
        partial.mkdir(mode=0o700)
    except FileExistsError:
        raise StoreError(
            f"{partial} already exists: another backup is running, or one was interrupted; "
            "remove it in that case"
        ) from None
    except OSError as error:
        raise StoreError(f"cannot create {partial}: {error.strerror}") from error
    try:
        copied = _copy_all(path, partial, progress)
        _copy_format(path, partial)
        os.rename(partial, target)
        sync_directory(target.parent)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot copy {path} to {target}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return copied


def restore(
    source: Path, target: Path, progress: Progress = lambda done, total: None
) -> CopySummary:
    """Put a backup into ``target``, which must be empty or absent. Damaged ones are refused."""
    _require_empty(target)
    require_plain_files(source)
    with locked(source):
        findings = check(source)
        # Readers that are ahead of the log are no hindrance: the start of a broker sees to them.
        damaged = [place for place in findings.places if place.remedy is not RepairAction.RAISE]
        if damaged:
            hopeless = any(place.remedy is RepairAction.NONE for place in damaged)
            way_out = "take another backup" if hopeless else "with --repair it can be used"
            raise StoreError(f"{source} is damaged: see `headrace fsck {source}`; {way_out}")
        try:
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.chmod(0o700)
            copied = _copy_all(source, target, progress)
            _begin_epoch(target / JOURNAL)
            # Last: without it no broker starts on a copy that is not complete.
            _copy_format(source, target)
            return copied
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot copy {source} to {target}: {error}") from error


def _require_empty(target: Path) -> None:
    try:
        found = {entry.name for entry in target.iterdir()} - {"lost+found"}  # of a mounted disk
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot use {target}: {error.strerror}") from error
    if found:
        raise StoreError(f"{target} is not empty: choose an empty or a new directory")


def _copy_all(source: Path, target: Path, progress: Progress) -> CopySummary:
    journal = target / JOURNAL
    journal.mkdir(mode=0o700)
    size = 0
    positions = _read_running(source / FILE_NAME)
    with _snapshot(source / JOURNAL) as snapshot:
        for name, data in snapshot.checkpoints.items():
            if data is not None:
                write_file(journal / name, data)
        for number, (name, fd) in enumerate(snapshot.files.items(), 1):
            is_sealed = name.removesuffix(SUFFIX) + INDEX_SUFFIX in snapshot.files
            size += _copy_file(fd, journal / name, _CHUNK if is_sealed else _PAGE)
            progress(number, len(snapshot.files))
        segments = sum(1 for name in snapshot.files if name.endswith(SUFFIX))
    _copy_metadata(source / FILE_NAME, target / FILE_NAME)
    if positions is not None:
        _set_back(target, positions)
        _end_wal(target / FILE_NAME)
    sync_directory(journal)
    return CopySummary(segments, size)


def _copy_format(source: Path, target: Path) -> None:
    write_file(target / FORMAT_FILE, (source / FORMAT_FILE).read_bytes())
    sync_directory(target)


def _begin_epoch(journal: Path) -> None:
    """Readers outside may have seen more than is in the copy: the next start has to know."""
    known = {name: data for name, data in _read_checkpoints(journal).items() if data is not None}
    for name in known or CHECKPOINTS[:1]:
        (journal / name).unlink(missing_ok=True)
        write_file(journal / name, with_new_epoch(known.get(name)))
    sync_directory(journal)


@contextmanager
def _snapshot(journal: Path) -> Iterator[_Snapshot]:
    _allow_many_files()
    for _ in range(_ATTEMPTS):
        with ExitStack() as stack:
            checkpoints = _read_checkpoints(journal)
            files = _open_all(journal, stack)
            if files is not None and _read_checkpoints(journal) == checkpoints:
                _require_segments(journal, checkpoints, files)
                yield _Snapshot(checkpoints, files)
                return
    raise StoreError(f"{journal} changes too fast to be copied: try again")


def _require_segments(
    journal: Path, checkpoints: Mapping[str, bytes | None], files: Container[str]
) -> None:
    """StoreError when a segment is missing: the copy would be as incomplete."""
    listed: set[int] = set()
    for data in checkpoints.values():
        with suppress(StoreError):  # a damaged one is copied as it is
            listed.update(read_checkpoint(data).segments if data is not None else ())
    for name in map(segment_name, sorted(listed)):
        if name not in files:
            raise StoreError(f"{journal / name} is missing: see `headrace fsck {journal.parent}`")


def _read_checkpoints(journal: Path) -> dict[str, bytes | None]:
    return {name: _read(journal / name) for name in CHECKPOINTS}


def _open_all(journal: Path, stack: ExitStack) -> dict[str, int] | None:
    """Every segment and index file, open; None when one was deleted meanwhile."""
    if not journal.is_dir():
        return {}
    files: dict[str, int] = {}
    for name in sorted(os.listdir(journal)):
        if name.endswith((SUFFIX, INDEX_SUFFIX)):
            try:
                fd = os.open(journal / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            stack.callback(os.close, fd)
            files[name] = fd
    return files


def _copy_file(fd: int, target: Path, chunk: int) -> int:
    """From the end to the beginning: whatever is in the copy, all that was written before is too.

    A file that is being appended to is read page by page; larger reads could be overtaken.
    """
    zeros = bytes(chunk)
    out = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(out, os.fstat(fd).st_size)
        for start, stop in reversed(list(extents(fd))):  # what was only set aside stays a hole
            for offset in reversed(range(start, stop, chunk)):
                data = os.pread(fd, min(chunk, stop - offset), offset)
                if data != zeros:
                    write_all(out, data, offset)
        os.fsync(out)
        return os.fstat(out).st_blocks * 512
    finally:
        os.close(out)


def _copy_metadata(source: Path, target: Path) -> None:
    """SQLite makes the copy itself: consistent, with the changes that are still in the -wal."""
    if not source.exists():
        return
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    uri = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=10)) as origin,
        closing(sqlite3.connect(target)) as copy,
    ):
        origin.backup(copy)


def _end_wal(file: Path) -> None:
    """The file alone is the database, and it is on disk."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_running(file: Path) -> Declarations | None:
    """Everything in a meta.db that is in use; None when there is no such file."""
    if not file.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="headrace-") as name:
        _copy_metadata(file, Path(name) / FILE_NAME)
        with closing(SqliteMetadata(Path(name))) as metadata:
            return metadata.load()


def _set_back(directory: Path, early: Declarations) -> None:
    """Give the readers in a copied meta.db their positions in ``early``, which was read before the
    commit log was copied.

    A group or pin that was removed since stays removed. One that was added since stays as it is: it
    may be ahead of the log, which the start of a broker sees to.
    """
    failures: list[Exception] = []
    with closing(SqliteMetadata(directory)) as metadata:
        late = metadata.load()
        known = {_reader(row) for row in _rows(early)} & {_reader(row) for row in _rows(late)}
        metadata.start(lambda call: call(), lambda ticket: None, failures.append)
        for row in _rows(late):
            if _reader(row) in known:
                metadata.delete(row)
        for row in _rows(early):
            if _reader(row) in known:
                metadata.save(row)
    if failures:
        raise failures[0]


def _rows(declarations: Declarations) -> Iterable[PositionRow]:
    return (*declarations.cursors, *declarations.retries, *declarations.pins)


def _reader(row: PositionRow) -> tuple[str, ...]:
    """Whose position it is: of a group, of a consumer without one, or of a query outside."""
    if isinstance(row, PinRow):
        return row.uuid, row.vhost, row.kind, row.name, row.query
    token = row.token if isinstance(row, CursorRow) and not row.reader_group else ""
    return row.topic, row.reader_group, token


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _allow_many_files() -> None:
    """Two files per 32 MiB are open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
