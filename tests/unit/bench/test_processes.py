"""Readings of /proc, taken on the test's own process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.bench import processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def test_a_tree_begins_with_its_process() -> None:
    assert processes.tree(os.getpid())[0] == os.getpid()
    assert os.getpid() in processes.tree(os.getppid())


def test_our_own_memory_and_time_are_seen() -> None:
    memory = processes.memory([os.getpid()])

    assert 0 < memory.anonymous <= memory.resident
    assert 0 < processes.cpu_seconds([os.getpid()]) <= processes.machine_seconds()


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert processes.cpu_seconds([0]) == 0
    assert processes.memory([0]).resident == 0


def test_the_root_has_a_filesystem() -> None:
    assert processes.filesystem(Path("/")) != "unknown"
