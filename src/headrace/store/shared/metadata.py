"""Metadata of a shard: SQLite in the cache, its write-ahead log shipped with every commit.

SQLite recovers from the database file and its log wherever they are put, so the next owner needs
nothing else. The log is merged into the file, and the file shipped as a whole, when it has grown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.store.api.metadata import Declarations
from headrace.store.shared.disk import SharedFiles
from headrace.store.sqlite.metadata import FILE_NAME, SqliteMetadata

LOG_NAME = f"{FILE_NAME}-wal"
MERGE_SIZE = 4 << 20


class SharedMetadata(SqliteMetadata):
    """The Metadata contract; a change is committed when it is in the database of the shard."""

    def __init__(self, directory: Path, files: SharedFiles) -> None:
        super().__init__(directory)
        self.files = files
        self._log = directory / LOG_NAME
        self._shipped = 0  # bytes of the log
        self._is_torn = False
        self._prepare()

    def load(self) -> Declarations:
        before = self._connection
        found = super().load()
        if self._connection is not before:  # the file was damaged, and made again
            self._prepare()
        return found

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA synchronous = OFF")  # it is a cache
        self._connection.execute("PRAGMA wal_autocheckpoint = 0")  # the log is shipped first
        self._ship_file()

    def _check_space(self) -> None:
        """The local file is a cache: nothing is set aside for it, and there is room again."""
        self._set_full(False)

    def close(self) -> None:
        super().close()
        self.files.replace(FILE_NAME)
        self.files.remove(LOG_NAME)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with super()._transaction():
                yield
        except BaseException:
            self._is_torn = True  # the log may have frames that the next change writes over
            raise
        size = self._log.stat().st_size
        if size > MERGE_SIZE or self._is_torn:
            self._ship_file()
        else:
            with self._log.open("rb") as log:
                log.seek(self._shipped)
                self.files.write(LOG_NAME, log.read(size - self._shipped), self._shipped)
            self._shipped = size
        self.files.flush()

    def _ship_file(self) -> None:
        """Merge the log into the file, and begin another one."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.files.replace(FILE_NAME)
        self.files.create(LOG_NAME, 0)
        self._shipped = 0
        self._is_torn = False
