"""Slots of the shared board do not overlap."""

from __future__ import annotations

from headrace.bench.load.worker_group import SharedCounters


def test_slots_are_apart_and_start_at_zero() -> None:
    board = SharedCounters(2, 3, samples=4)
    parts = (board.sent, board.confirmed, board.received, board.samples)

    for number, part in enumerate(parts, 1):
        for slot in range(len(part)):
            part[slot] = number

    assert [list(part) for part in parts] == [[1] * 2, [2] * 2, [3] * 3, [4] * 4]
    assert not board.stopped


def test_stop_is_seen() -> None:
    board = SharedCounters(1, 0)

    board.stop()

    assert board.stopped
    assert (board.sent[0], len(board.received)) == (0, 0)
