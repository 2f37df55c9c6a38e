"""A disk that keeps its promises and nothing more: what was not synced may be gone after a crash.

For each file it knows what is durable and, in order, what was written since the last sync; for the
directory what is durable and which creations, renames and removals are not. crash() makes the disk
that a machine could find after a power cut: of each unsynced write all, nothing, or some of its
sectors; of the unsynced directory operations any of them, whatever became of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random

SECTOR = 512


class PowerCut(BaseException):
    """Not an Exception: nothing in the program may catch it, as nothing survives a power cut."""


@dataclass(slots=True, eq=False)
class Inode:
    """A file's bytes, with or without a name."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: new size

    def resize(self, size: int) -> None:
        _resize(self.data, size)
        self.unsynced.append((size, None))

    def write(self, data: bytes, offset: int) -> None:
        _put(self.data, data, offset)
        self.unsynced.append((offset, bytes(data)))

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.unsynced.clear()

    def after_crash(self, rng: Random, luck: float) -> Inode:
        image = bytearray(self.durable)
        for offset, data in self.unsynced:
            if data is None:
                if rng.random() < luck:
                    _resize(image, offset)
                continue
            fate = rng.random()
            if fate < luck * 0.5:
                _put(image, data, offset)
            elif fate < 0.5 + luck * 0.5:
                for at, sector in _sectors(data, offset):
                    if rng.random() < luck:
                        _put(image, sector, at)
        return Inode(image, bytes(image))


def _resize(data: bytearray, size: int) -> None:
    if len(data) > size:
        del data[size:]
    else:
        data += bytes(size - len(data))


def _put(image: bytearray, data: bytes, offset: int) -> None:
    if len(image) < offset + len(data):
        _resize(image, offset + len(data))
    image[offset : offset + len(data)] = data


def _sectors(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    at = offset
    while at < offset + len(data):
        stop = min(offset + len(data), (at // SECTOR + 1) * SECTOR)
        yield at, data[at - offset : stop - offset]
        at = stop


class ForgetfulFile:
    """A handle. Closing it syncs nothing."""

    def __init__(self, disk: ForgetfulDisk, name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self.is_open = True

    def write(self, data: bytes, offset: int) -> None:
        self._use().write(data, offset)
        self._disk.tick()

    def read(self, size: int, offset: int) -> bytes:
        return bytes(self._use().data[offset : offset + size])

    def sync(self) -> None:
        inode = self._use()
        self._disk.tick()
        if not self._disk.ignores("sync", self._name):
            inode.sync()

    def size(self) -> int:
        return len(self._use().data)

    data_end = size

    def truncate(self, size: int) -> None:
        self._use().resize(size)
        self._disk.tick()

    def descriptor(self) -> AbstractContextManager[int]:
        raise OSError("this disk is a dictionary")

    def close(self) -> None:
        self.is_open = False

    def _use(self) -> Inode:
        assert self.is_open, f"{self._name} is closed"
        return self._inode


def _heed_everything(operation: str, name: str) -> bool:
    return False


class ForgetfulDisk:
    """See store.disk.Disk. ``ignores(operation, name)`` can take a sync out of the program."""

    def __init__(self, files: dict[str, Inode] | None = None) -> None:
        self._files = dict(files or {})
        self._durable = dict(self._files)
        self._unsynced: list[tuple[str, str | None, Inode | None]] = []  # gone, come, what
        self.fuse: int | None = None  # operations until the power goes
        self.operations = 0
        self.ignores: Callable[[str, str], bool] = _heed_everything

    # -- what the log calls ------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def create(self, name: str, size: int = 0) -> ForgetfulFile:
        if name in self._files:
            raise FileExistsError(name)
        inode = Inode()
        if size:
            inode.resize(size)
        self._enter("", name, inode)
        return ForgetfulFile(self, name, inode)

    def open(self, name: str) -> ForgetfulFile:
        if name not in self._files:
            raise FileNotFoundError(name)
        return ForgetfulFile(self, name, self._files[name])

    def rename(self, old: str, new: str) -> None:
        self._enter(old, new, self._files[old])

    def remove(self, name: str) -> None:
        if name not in self._files:
            raise FileNotFoundError(name)
        del self._files[name]
        self._unsynced.append((name, None, None))
        self.tick()

    def sync_directory(self) -> None:
        self.tick()
        last = next((come for _, come, _ in reversed(self._unsynced) if come), "")
        if not self.ignores("sync_directory", last):
            self._durable = dict(self._files)
            self._unsynced.clear()

    def _enter(self, gone: str, come: str, inode: Inode) -> None:
        self._files.pop(gone, None)
        self._files[come] = inode
        self._unsynced.append((gone, come, inode))
        self.tick()

    def tick(self) -> None:
        self.operations += 1
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                raise PowerCut

    # -- what a test does ------------------------------------------------------------------------

    def crash(self, rng: Random) -> ForgetfulDisk:
        """The disk after a power cut."""
        luck = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        names = dict(self._durable)
        for gone, come, inode in self._unsynced:
            if rng.random() < luck:
                names.pop(gone, None)
                if come is not None and inode is not None:
                    names[come] = inode
        images: dict[int, Inode] = {}
        for inode in names.values():
            if id(inode) not in images:
                images[id(inode)] = inode.after_crash(rng, luck)
        return ForgetfulDisk({name: images[id(inode)] for name, inode in names.items()})

    def contents(self, name: str) -> bytearray:
        """The bytes of a file, to look at or to spoil."""
        return self._files[name].data

    def is_durable(self, name: str) -> bool:
        """Whether a power cut leaves the file of that name, as far as the directory goes."""
        return self._durable.get(name) is self._files.get(name)

    def total_size(self) -> int:
        return sum(len(inode.data) for inode in self._files.values())
