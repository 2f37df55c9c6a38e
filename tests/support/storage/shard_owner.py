"""Owners of a shard in one process: each take-over is another one, with a cache of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

from headrace.model.shard_ownership import taken_over
from headrace.store.log.commit_log import CommitLog
from headrace.store.shared.cache import ShardCache
from headrace.store.shared.database import ShardDatabase
from headrace.store.shared.disk import SharedDisk, SharedFiles
from headrace.store.shared.writer import ShardWriter
from headrace.store.sql.url import parse_url
from support.storage.log_stage import LogStage

LEASE = 30.0


class TakeOvers:
    """A shard that goes from owner to owner."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._settings = parse_url(url)
        self.count = 0

    def database(self) -> ShardDatabase:
        return ShardDatabase(self._settings, "main", lease=LEASE)

    def next(self) -> tuple[Path, SharedFiles, ShardWriter]:
        """The directory, files and writer of the next owner."""
        self.count += 1
        database = self.database()
        database.create()
        seen = database.status().row
        incarnation = secrets.token_hex(8)
        assert database.take_over(
            seen, incarnation, node=f"n{self.count}", address="", reason="a test"
        )
        taken = taken_over(seen, incarnation)
        directory = self._directory / f"n{self.count}"
        cache = ShardCache(directory, "main")
        assert cache.update(database, taken)
        cache.remove_marker()
        writer = ShardWriter(database, taken, LEASE)
        return directory, SharedFiles(directory, writer, cache.files), writer


class SharedLogStage(LogStage):
    """A log whose every restart is a take-over by another node."""

    def __init__(self, directory: Path, url: str) -> None:
        self._take_overs = TakeOvers(directory, url)
        super().__init__(self._next_disk())

    def _next_disk(self) -> SharedDisk:
        directory, files, self.shard_writer = self._take_overs.next()
        return SharedDisk(directory / "journal", files)

    def crash(self) -> CommitLog:
        self._close_files()
        self.disk = self._next_disk()
        return self.open()

    def restart(self) -> CommitLog:
        self.log.close()
        self.shard_writer.flush()
        self.disk = self._next_disk()
        return self.open()
