"""Mapped segments: a page that cannot be read is an error, not the end of the process."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from headrace.bulk.decode.batches import MappedSegment
from headrace.errors import StoreError


def test_a_page_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """To touch a page behind the end of a file is what a bad sector is: SIGBUS."""
    file = tmp_path / "segment"
    file.write_bytes(bytes(1 << 16))
    with file.open("rb") as opened:
        fd = opened.fileno()
        mapping = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        segment = MappedSegment("orders", fd)
        try:
            mapping.madvise(22, 0, 4096)
        except OSError:
            pytest.skip("needs Linux 5.14")
        os.truncate(file, 8192)

        segment.read_ahead(np.array([64, 4000]), np.array([100, 8000]))
        with pytest.raises(StoreError, match="orders cannot be read"):
            segment.read_ahead(np.array([64, 12000]), np.array([100, 12100]))


def test_the_disk_is_asked_for_little_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of the log waits behind it."""
    file = tmp_path / "segment"
    file.write_bytes(bytes(3 << 20))
    asked: list[tuple[str, int, int]] = []

    def advise(fd: int, at: int, size: int, what: int) -> None:
        asked.append(("begin", at, size))

    def wait(fd: int, size: int, at: int) -> bytes:
        asked.append(("wait", at, size))
        return b""

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(os, "pread", wait)
    with file.open("rb") as opened:
        segment = MappedSegment("orders", opened.fileno())
        segment.read_ahead(np.array([5000]), np.array([3 << 20]))
    begun, waited = asked[::2], asked[1::2]
    assert [kind for kind, _, _ in begun] == ["begin"] * len(waited)
    assert [at + size - 1 for _, at, size in begun] == [at for _, at, _ in waited]
    assert begun[0][1] == 4096
    assert sum(size for _, _, size in begun) == (3 << 20) - 4096
    assert max(size for _, _, size in begun) <= 1 << 19
