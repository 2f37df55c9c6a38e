"""Checkpoints: round trip, damage, and the old one until the new one is there."""

from __future__ import annotations

import pytest

from headrace.errors import StoreError
from headrace.model.intervals import Intervals
from headrace.store.log.checkpoint_file import (
    NAMES,
    Checkpoint,
    checkpoint_bytes,
    load_checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from headrace.store.log.queue_index import QueueIndex
from support.faulty_disk import ForgetfulDisk, PowerCut


def some_queues() -> dict[int, QueueIndex]:
    queue = QueueIndex(50, Intervals(10, [(12, 14), (20, 30)]))
    queue.requeued = [(11, 12, 3), (40, 45, 1)]
    queue.epochs = [(1, 0), (2, 33)]
    return {1: QueueIndex(), 7: queue}


DATA = checkpoint_bytes(
    Checkpoint(
        4096,
        some_queues(),
        clean=True,
        begin_epoch=True,
        sequence=5,
        format_2_from=1 << 40,
        metadata_generation=77,
        segments={0: 1024, 2048: 100},
    )
)
# As version 1 wrote it: position 4096, clean, one queue with number 7.
OLD = bytes.fromhex(
    "485243484b50543157c12e1d0100000000100000000000000100000000000000070000000000000032000000"
    "000000000a0000000000000002000000010000000c000000000000000e000000000000001400000000000000"
    "1e000000000000000b000000000000000c000000000000000300000000000000"
)


def test_a_checkpoint_survives_the_round_trip() -> None:
    found = read_checkpoint(DATA)
    queue = found.queues[7]

    assert (found.position, found.clean, sorted(found.queues)) == (4096, True, [1, 7])
    assert (found.begin_epoch, found.sequence, found.format_2_from) == (True, 5, 1 << 40)
    assert (found.metadata_generation, found.segments) == (77, {0: 1024, 2048: 100})
    assert queue.epochs == [(1, 0), (2, 33)]
    assert (queue.next_offset, queue.settled.floor) == (50, 10)
    assert list(queue.settled.ranges()) == [(12, 14), (20, 30)]
    assert queue.requeued == [(11, 12, 3), (40, 45, 1)]


def test_every_cut_and_every_changed_byte_is_noticed() -> None:
    unnoticed = []
    damaged = [DATA[:cut] for cut in range(len(DATA))]
    damaged += [DATA[:at] + bytes([DATA[at] ^ 4]) + DATA[at + 1 :] for at in range(len(DATA))]
    for data in damaged:
        with pytest.raises(StoreError, match="damaged"):
            unnoticed.append(read_checkpoint(data))

    assert unnoticed == []


def test_a_checkpoint_of_version_1_is_read() -> None:
    found = read_checkpoint(OLD)
    queue = found.queues[7]

    assert (found.position, found.clean, sorted(found.queues)) == (4096, True, [7])
    assert (queue.next_offset, queue.settled.floor) == (50, 10)
    assert list(queue.settled.ranges()) == [(12, 14), (20, 30)]
    assert (queue.requeued, queue.epochs) == ([(11, 12, 3)], [])
    assert (found.sequence, found.format_2_from, found.begin_epoch) == (0, None, False)


def write(disk: ForgetfulDisk, sequence: int) -> None:
    found = Checkpoint(8 * sequence, clean=True, sequence=sequence, format_2_from=0)
    write_checkpoint(disk, checkpoint_bytes(found), sequence)


def test_without_one_there_is_none() -> None:
    assert load_checkpoints(ForgetfulDisk()) == (None, [])


@pytest.mark.parametrize("operations", range(1, 7))
def test_an_interrupted_checkpoint_leaves_the_old_or_the_new_one(operations: int) -> None:
    disk = ForgetfulDisk()
    write(disk, 1)
    disk.fuse = operations

    try:
        write(disk, 2)
    except PowerCut:
        pass
    disk.fuse = None

    found, wrong = load_checkpoints(disk)
    assert found is not None
    assert (found.position in (8, 16), wrong) == (True, [])
    write(disk, found.sequence + 1)
    write(disk, found.sequence + 2)
    assert list(disk.names()) == ["checkpoint", "checkpoint.1"]


@pytest.mark.parametrize("lost", [2, 3])
@pytest.mark.parametrize("is_gone", [False, True], ids=["damaged", "gone"])
def test_without_one_of_the_two_the_other_is_used(lost: int, is_gone: bool) -> None:
    disk = ForgetfulDisk()
    write(disk, 2)
    write(disk, 3)
    if is_gone:
        disk.remove(NAMES[lost % 2])
    else:
        disk.contents(NAMES[lost % 2])[20] ^= 1

    found, wrong = load_checkpoints(disk)

    assert found is not None
    assert found.sequence == 5 - lost
    assert [name for name, _ in wrong] == [NAMES[lost % 2]]
    assert not found.clean  # the one that is lost may have been the last
