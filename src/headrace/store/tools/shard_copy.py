"""Between a data directory and a shard: adopt a directory into a new shard, export a shard."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from headrace.errors import ConfigError, StoreError
from headrace.model.shard_ownership import taken_over
from headrace.store.data_directory import FORMAT_FILE, JOURNAL, lock_directory, read_format
from headrace.store.shared.cache import ShardCache
from headrace.store.shared.database import ShardDatabase
from headrace.store.shared.disk import SharedFiles, is_local
from headrace.store.shared.metadata import LOG_NAME
from headrace.store.shared.writer import ShardWriter
from headrace.store.sqlite.metadata import FILE_NAME

LEASE = 60.0
Progress = Callable[[int, int], None]


def adopt(directory: Path, database: ShardDatabase, progress: Progress) -> int:
    """Copy the files of a stopped broker into a new shard; returns how many.

    The format file comes last: a shard without it is not complete, and no node serves it.
    """
    with ExitStack() as locks:
        try:
            read_format(directory)
            lock_directory(directory, locks, create=False)
        except FileNotFoundError:
            raise ConfigError(f"{directory} is no data directory of Headrace") from None
        except BlockingIOError:
            raise ConfigError(f"{directory} is in use: stop its broker first") from None
        database.create()
        seen = database.status().row
        if seen.epoch:
            raise ConfigError("the shard exists already: choose another name")
        incarnation = secrets.token_hex(16)
        node = f"adopting on {socket.gethostname()}"
        if not database.take_over(seen, incarnation, node=node, address="", reason="adopted"):
            raise ConfigError("the shard was taken by another process meanwhile")
        writer = ShardWriter(database, taken_over(seen, incarnation), LEASE)
        files = SharedFiles(directory, writer, {})
        names = _names(directory)
        for done, name in enumerate(names, 1):
            files.replace(name)
            writer.flush()
            progress(done, len(names))
        writer.release()
    return len(names)


def _names(directory: Path) -> list[str]:
    log = sorted(one.name for one in (directory / JOURNAL).iterdir() if not is_local(one.name))
    metadata = [name for name in (FILE_NAME, LOG_NAME) if (directory / name).exists()]
    return [*(f"{JOURNAL}/{name}" for name in log), *metadata, FORMAT_FILE]


def export(database: ShardDatabase, shard: str, directory: Path) -> int:
    """Copy a shard into a new data directory, also while a node serves it; returns its commit."""
    if directory.exists() and os.listdir(directory):
        raise ConfigError(f"{directory} is not empty")
    cache = ShardCache(directory, shard)
    with cache.locks:
        cache.update(database)
        if FORMAT_FILE not in cache.files:
            raise StoreError("the shard is empty, or was not adopted to its end")
        cache.remove_label()
    return cache.row.seq
