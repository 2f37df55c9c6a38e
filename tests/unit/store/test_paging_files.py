"""Scratch files: written, read, freed; nothing is left open or behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.store.paging_files import Scratch
from support.open_files import descriptors


def open_files() -> int:
    return len(descriptors())


def test_contents_come_back_as_they_were(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    first = scratch.write([b"a", b"", b"ccc"])
    second = scratch.write([b"d" * 100_000])

    assert scratch.read(second) == [b"d" * 100_000]
    assert scratch.read(first) == [b"a", b"", b"ccc"]
    scratch.free(first)
    scratch.free(second)
    scratch.close()


def test_files_have_no_name(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    slot = scratch.write([b"a"])

    assert list(tmp_path.iterdir()) == []
    scratch.free(slot)
    scratch.close()


def test_a_file_is_closed_once_nothing_in_it_is_used(tmp_path: Path) -> None:
    before = open_files()
    scratch = Scratch(tmp_path, file_size=100)
    slots = [scratch.write([b"x" * 60]) for _ in range(10)]
    assert open_files() == before + 10

    for slot in slots[:-1]:
        scratch.free(slot)
    assert open_files() == before + 1

    scratch.free(slots[-1])
    scratch.close()
    assert open_files() == before


def test_contents_share_a_file_while_there_is_room(tmp_path: Path) -> None:
    before = open_files()
    scratch = Scratch(tmp_path, file_size=100)
    slots = [scratch.write([b"x" * 30]) for _ in range(3)]

    assert open_files() == before + 1
    scratch.free(slots[0])
    assert scratch.read(slots[2]) == [b"x" * 30]
    for slot in slots[1:]:
        scratch.free(slot)
    scratch.close()
    assert open_files() == before


def test_contents_larger_than_a_file_get_one_of_their_own(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, file_size=10)
    slot = scratch.write([b"x" * 50, b"y"])

    assert scratch.read(slot) == [b"x" * 50, b"y"]
    scratch.free(slot)
    scratch.close()


def test_a_full_disk_is_the_callers_business_and_leaves_the_rest_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = Scratch(tmp_path)
    slot = scratch.write([b"a"])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            scratch.write([b"b"])

    after = scratch.write([b"c"])
    assert scratch.read(slot) + scratch.read(after) == [b"a", b"c"]
    scratch.free(slot)
    scratch.free(after)
    scratch.close()
