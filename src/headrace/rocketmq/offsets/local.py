"""Offsets in a local file, for broadcasting consumers: each instance has its own."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from headrace.errors import MalformedError
from headrace.rocketmq.enums import OffsetFileFormat
from headrace.rocketmq.errors import OffsetFileError, OffsetStoreError
from headrace.rocketmq.offsets.offset_store import NOT_FOUND, OffsetEntry, TableOffsetStore
from headrace.wire.remoting.message_queue import MessageQueue, take_offsets

VERSION = 1
_LINE = re.compile(r"(?P<topic>[^@]+)@(?P<broker>.+):(?P<queue>\d+)=(?P<offset>\d+)")


def dump(entries: Iterable[OffsetEntry]) -> bytes:
    """Strict JSON, one queue per element."""
    offsets = [
        {
            **entry.queue.as_map(),
            "offset": entry.offset,
            "lastUpdateTimestamp": entry.last_update_timestamp,
        }
        for entry in sorted(entries, key=lambda one: one.queue)
    ]
    return json.dumps({"version": VERSION, "offsets": offsets}, indent=1).encode() + b"\n"


def dump_lines(entries: Iterable[OffsetEntry]) -> bytes:
    """One queue per line: topic@broker:queue=offset."""
    lines = [
        f"{one.queue.topic}@{one.queue.broker_name}:{one.queue.queue_id}={one.offset}\n"
        for one in sorted(entries, key=lambda one: one.queue)
    ]
    return "".join(lines).encode()


def parse(data: bytes) -> list[OffsetEntry]:
    """Offsets in any of the known formats; OffsetFileError when it is none of them."""
    try:
        text = data.decode("utf-8").strip()
        if not text:
            raise OffsetFileError("the file is empty")
        if not text.startswith("{"):
            return [_of_line(line) for line in text.splitlines() if line.strip()]
        if '"offsetTable"' in text:
            return _of_java(data)
        return [_of_record(one) for one in json.loads(text)["offsets"]]
    except OffsetFileError:
        raise
    except (UnicodeDecodeError, ValueError, MalformedError, KeyError, TypeError) as error:
        raise OffsetFileError(f"not an offset file: {error!r}") from error


def _of_record(one: dict[str, Any]) -> OffsetEntry:
    offset = one["offset"]
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise OffsetFileError(f"offset {offset!r} is no offset")
    queue = MessageQueue(str(one["topic"]), str(one["brokerName"]), int(one["queueId"]))
    return OffsetEntry(queue, offset, int(one["lastUpdateTimestamp"]))


def _of_line(line: str) -> OffsetEntry:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise OffsetFileError(f"line {line[:80]!r} is not topic@brokerId:queueId=offset")
    queue = MessageQueue(found["topic"], found["broker"], int(found["queue"]))
    return OffsetEntry(queue, int(found["offset"]))


def _of_java(data: bytes) -> list[OffsetEntry]:
    found = take_offsets("offsetTable", data).items()
    return [OffsetEntry(queue, offset) for queue, offset in found]


logger = logging.getLogger(__name__)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.@#%-]")


class LocalOffsetStore(TableOffsetStore):
    """`<directory>/<client id>/<group>/offsets.json`, replaced as a whole, with a `.bak`."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        group: str,
        client_id: str = "DEFAULT",
        *,
        enable_auto_recovery: bool = True,
        max_retry_times: int = 3,
        file_format: OffsetFileFormat | str = OffsetFileFormat.JSON,
    ) -> None:
        super().__init__()
        self._dump = dump if file_format == OffsetFileFormat.JSON else dump_lines
        folder = Path(directory).expanduser() / _file_name(client_id) / _file_name(group)
        self.path = folder / "offsets.json"
        self.backup = folder / "offsets.json.bak"
        self._recovers = enable_auto_recovery
        self._tries = max_retry_times + 1
        self._writing = Lock()
        self._saved: dict[MessageQueue, OffsetEntry] = {}

    # -- reading -----------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file; a damaged one is replaced by its backup, if that is allowed."""
        with self._writing:
            self._saved = {entry.queue: entry for entry in self._read_files()}
            for entry in self._saved.values():
                self._learn(entry.queue, entry.offset)

    def _read_files(self) -> list[OffsetEntry]:
        try:
            data = self._bytes_of(self.path)
            if data is not None:
                return parse(data)
            problem = None
        except OffsetFileError as error:
            problem = error
        if problem is not None and not self._recovers:
            raise OffsetFileError(
                f"{self.path} is damaged ({problem}); enable_auto_recovery is off, so repair "
                f"or remove the file; {self.backup.name} has the state before"
            ) from problem
        return self._read_backup(problem)

    def _read_backup(self, problem: OffsetFileError | None) -> list[OffsetEntry]:
        try:
            data = self._bytes_of(self.backup)
            entries = parse(data) if data is not None else None
        except OffsetFileError as error:
            raise OffsetFileError(
                f"{self.path} and its backup are damaged ({problem or 'missing'}; {error}); "
                "remove both to begin as consume_from_where says"
            ) from error
        if entries is not None:
            logger.warning(
                "%s is %s; offsets are taken from %s and may be older, messages may come again",
                self.path,
                "damaged" if problem else "missing",
                self.backup.name,
            )
            return entries
        if problem is not None:
            raise OffsetFileError(
                f"{self.path} is damaged ({problem}) and there is no backup; remove it to begin "
                "as consume_from_where says"
            ) from problem
        return []

    def _bytes_of(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OffsetStoreError(f"{path} cannot be read: {error}") from error

    def import_file(self, path: str | os.PathLike[str]) -> int:
        """Take offsets from a file of the original, Java's or Go's format; how many."""
        data = self._bytes_of(Path(path).expanduser())
        if data is None:
            raise OffsetStoreError(f"{path} does not exist")
        entries = parse(data)
        for entry in entries:
            self.update_offset(entry.queue, entry.offset)
        return len(entries)

    # -- the interface -----------------------------------------------------------------------

    def persist_all(self) -> None:
        entries = self._unsaved()
        if entries:
            self._save(entries)

    def _stored_offset(self, queue: MessageQueue) -> int:
        with self._writing:
            stored = {entry.queue: entry for entry in self._read_files()}
        entry = stored.get(queue)
        return entry.offset if entry else NOT_FOUND

    # -- writing -----------------------------------------------------------------------------

    def _save(self, entries: list[OffsetEntry]) -> None:
        with self._writing:
            offsets = {**self._saved, **{entry.queue: entry for entry in entries}}
            data = self._dump(offsets.values())
            problem: OSError | None = None
            for _ in range(self._tries):
                try:
                    self._write(data)
                    break
                except OSError as error:
                    problem = error
            else:
                raise OffsetStoreError(
                    f"{self.path} was not written after {self._tries} tries ({problem}); "
                    "offsets are kept in memory and tried again"
                ) from problem
            self._saved = offsets
        self._saved_all(entries)

    def _write(self, data: bytes) -> None:
        """The file is complete at any moment: a new one is synced, then takes the name."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with open(fresh, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            with contextlib.suppress(FileNotFoundError):
                self.backup.unlink()
            os.link(self.path, self.backup)
        os.replace(fresh, self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _file_name(text: str) -> str:
    """A client id or group as the name of a directory, whatever it holds."""
    safe = _UNSAFE.sub(lambda found: f"%{ord(found[0]):x}", text)
    return safe if safe.strip(".") else f"_{safe}"
