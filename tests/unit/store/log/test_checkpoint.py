"""Checkpoints: round trip, damage, and the old one until the new one is there."""

from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.model.intervals import Intervals
from headrace.store.log.checkpoint import (
    checkpoint_bytes,
    load_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from headrace.store.log.index import QueueIndex
from power.forgetful import ForgetfulDisk, PowerCut


def some_queues() -> dict[int, QueueIndex]:
    queue = QueueIndex(50, Intervals(10, [(12, 14), (20, 30)]))
    queue.returned = [(11, 12, 3), (40, 45, 1)]
    return {1: QueueIndex(), 7: queue}


DATA = checkpoint_bytes(4096, some_queues(), clean=True)


def test_a_checkpoint_survives_the_round_trip() -> None:
    found = read_checkpoint(DATA)
    queue = found.queues[7]

    assert (found.position, found.clean, sorted(found.queues)) == (4096, True, [1, 7])
    assert (queue.next_offset, queue.settled.floor) == (50, 10)
    assert list(queue.settled.ranges()) == [(12, 14), (20, 30)]
    assert queue.returned == [(11, 12, 3), (40, 45, 1)]


def test_every_cut_and_every_changed_byte_is_noticed() -> None:
    unnoticed = []
    damaged = [DATA[:cut] for cut in range(len(DATA))]
    damaged += [DATA[:at] + bytes([DATA[at] ^ 4]) + DATA[at + 1 :] for at in range(len(DATA))]
    for data in damaged:
        with pytest.raises(StoreError, match="damaged"):
            unnoticed.append(read_checkpoint(data))

    assert unnoticed == []


def test_without_one_there_is_none() -> None:
    assert load_checkpoint(ForgetfulDisk()) is None


@pytest.mark.parametrize("operations", range(1, 7))
def test_an_interrupted_checkpoint_leaves_the_old_or_the_new_one(operations: int) -> None:
    disk = ForgetfulDisk()
    write_checkpoint(disk, checkpoint_bytes(8, {}, clean=False))
    disk.fuse = operations

    try:
        write_checkpoint(disk, checkpoint_bytes(16, {}, clean=False))
    except PowerCut:
        pass
    disk.fuse = None

    found = load_checkpoint(disk)
    assert found is not None
    assert found.position in (8, 16)
    write_checkpoint(disk, checkpoint_bytes(24, {}, clean=False))
    assert list(disk.names()) == ["checkpoint"]
