"""The log's disk in a shard: a directory as cache, and a commit where others sync.

A file that replaces another (checkpoint, index) becomes a new generation of it with all its bytes,
so that a repeated commit does no harm. Temporary files and the reserve stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from headrace.store.disk import File, RealDisk
from headrace.store.log.group_commit import RESERVE
from headrace.store.shared.database import Change, DropFile, PutBlock, PutFile, ShardFile
from headrace.store.shared.writer import ShardWriter


class SharedFiles:
    """The files of a data directory that are in the shard, by their names there."""

    def __init__(self, directory: Path, writer: ShardWriter, found: dict[str, ShardFile]) -> None:
        self._directory = directory
        self._writer = writer
        self._generations = {name: one.generation for name, one in found.items()}
        # Behind the last byte that was written: what follows is zeros, in no block.
        self._ends: dict[str, int] = {}

    def flush(self) -> None:
        self._writer.flush()

    def create(self, name: str, size: int) -> None:
        self._generations[name] = generation = self._writer.new_generation()
        self._ends[name] = 0
        self._writer.put(PutFile(name, generation, size))

    def write(self, name: str, data: bytes, at: int) -> None:
        if at < self._ends.get(name, at + 1):
            # Perhaps over others: what is left of their blocks would lie behind it.
            self.replace(name)
            return
        self._ends[name] = max(self._ends.get(name, 0), at + len(data))
        self._writer.put(PutBlock(name, self._generations[name], at, bytes(data)))
        if self._writer.is_behind:
            self._writer.flush()

    def truncate(self, name: str, size: int) -> None:
        if name in self._ends and self._ends[name] <= size:
            self._writer.put(PutFile(name, self._generations[name], size))
        else:
            self.replace(name)

    def replace(self, name: str) -> None:
        """All of it, as it is in the cache."""
        data = (self._directory / name).read_bytes()
        self._generations[name] = generation = self._writer.new_generation()
        self._ends[name] = len(data)
        changes: list[Change] = [PutBlock(name, generation, 0, data)] if data else []
        self._writer.put(*changes, PutFile(name, generation, len(data)))

    def remove(self, name: str) -> None:
        if self._generations.pop(name, None) is not None:
            self._ends.pop(name, None)
            self._writer.put(DropFile(name))


class SharedFile:
    """See store.disk.File."""

    def __init__(self, cached: File, files: SharedFiles, name: str) -> None:
        self._cached = cached
        self._files = files
        self._name = name

    def write(self, data: bytes, offset: int) -> None:
        self._cached.write(data, offset)
        self._files.write(self._name, data, offset)

    def read(self, size: int, offset: int) -> bytes:
        return self._cached.read(size, offset)

    def sync(self) -> None:
        self._files.flush()

    def size(self) -> int:
        return self._cached.size()

    def data_end(self) -> int:
        return self._cached.data_end()

    def truncate(self, size: int) -> None:
        self._cached.truncate(size)
        self._files.truncate(self._name, size)

    def descriptor(self) -> AbstractContextManager[int]:
        return self._cached.descriptor()

    def close(self) -> None:
        self._cached.close()


def is_local(name: str) -> bool:
    """Whether a file of the log is nothing that the next owner needs."""
    return name == RESERVE or name.endswith(".new")


class SharedDisk:
    """See store.disk.Disk."""

    def __init__(self, directory: Path, files: SharedFiles) -> None:
        self._cache = RealDisk(directory)
        self._files = files
        self._prefix = f"{directory.name}/"

    def names(self) -> Iterator[str]:
        return self._cache.names()

    def create(self, name: str, size: int = 0) -> File:
        cached = self._cache.create(name, size)
        if is_local(name):
            return cached
        self._files.create(self._prefix + name, size)
        return SharedFile(cached, self._files, self._prefix + name)

    def open(self, name: str) -> File:
        cached = self._cache.open(name)
        return cached if is_local(name) else SharedFile(cached, self._files, self._prefix + name)

    def rename(self, old: str, new: str) -> None:
        self._cache.rename(old, new)
        self._files.remove(self._prefix + old)
        self._files.replace(self._prefix + new)

    def remove(self, name: str) -> None:
        self._cache.remove(name)
        self._files.remove(self._prefix + name)

    def sync_directory(self) -> None:
        self._files.flush()
