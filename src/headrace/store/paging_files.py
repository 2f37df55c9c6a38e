"""Room for messages that need not survive: files without a name, gone with the process."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FILE_SIZE = 64 << 20


class _File:
    """One nameless file; closed, and so freed, when nothing in it is used any more."""

    __slots__ = ("fd", "used", "users")

    def __init__(self, directory: Path) -> None:
        fd, name = tempfile.mkstemp(prefix="scratch-", dir=directory)
        os.unlink(name)
        self.fd = fd
        self.used = 0
        self.users = 0


class ScratchSlot(NamedTuple):
    """Contents that lie one after the other in a scratch file."""

    file: _File
    offset: int
    lengths: Sequence[int]


class Scratch:
    """All scratch files of a broker."""

    def __init__(self, directory: Path, file_size: int = FILE_SIZE) -> None:
        self.directory = directory
        self._file_size = file_size
        self._active: _File | None = None

    def write(self, contents: Sequence[bytes]) -> ScratchSlot:
        """Put contents aside. Raises OSError when the disk is full."""
        data = b"".join(contents)
        file = self._active
        if file is None or file.used + len(data) > self._file_size:
            file = self._renew()
        offset = file.used
        view = memoryview(data)
        while view:
            written = os.pwrite(file.fd, view, file.used)
            file.used += written
            view = view[written:]
        file.users += 1
        return ScratchSlot(file, offset, array("I", map(len, contents)))

    def read(self, slot: ScratchSlot) -> list[bytes]:
        data = os.pread(slot.file.fd, sum(slot.lengths), slot.offset)
        contents = []
        at = 0
        for length in slot.lengths:
            contents.append(data[at : at + length])
            at += length
        return contents

    def free(self, slot: ScratchSlot) -> None:
        """The contents are not needed any more."""
        slot.file.users -= 1
        if not slot.file.users and slot.file is not self._active:
            os.close(slot.file.fd)

    def _renew(self) -> _File:
        old, self._active = self._active, _File(self.directory)
        if old is not None and not old.users:
            os.close(old.fd)
        return self._active

    def close(self) -> None:
        if self._active is not None and not self._active.users:
            os.close(self._active.fd)
            self._active = None
