"""Mapped segments: a page that cannot be read is an error, not the end of the process."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from headrace.bulk.decode.batches import _read_ahead
from headrace.bulk.read_plan import ReadPlan
from headrace.errors import StoreError

JOB = ReadPlan("queue", "orders", 0, "middle", (), 0, ())


def test_a_page_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """To touch a page behind the end of a file is what a bad sector is: SIGBUS."""
    file = tmp_path / "segment"
    file.write_bytes(bytes(1 << 16))
    with file.open("rb") as opened:
        mapping = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
    try:
        mapping.madvise(22, 0, 4096)
    except OSError:
        pytest.skip("needs Linux 5.14")
    os.truncate(file, 8192)

    _read_ahead(mapping, np.array([64, 4000]), np.array([100, 8000]), JOB)
    with pytest.raises(StoreError, match="orders cannot be read"):
        _read_ahead(mapping, np.array([64, 12000]), np.array([100, 12100]), JOB)
