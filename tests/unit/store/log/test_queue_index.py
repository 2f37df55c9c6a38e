"""The index of a queue: entries by offset, by time, released and replaced."""

from __future__ import annotations

from headrace.store.log.queue_index import IndexEntry, QueueIndex


def index_of(*entries: tuple[int, int]) -> QueueIndex:
    index = QueueIndex()
    for number, (first, stop) in enumerate(entries):
        index.add(IndexEntry(first, stop, number * 100, 10, 1000 + number))
    return index


def firsts(index: QueueIndex, start: int = 0, stop: int | None = None) -> list[int]:
    return [entry.first for entry in index.entries(start, stop)]


def test_entries_are_those_that_hold_offsets_of_the_range() -> None:
    index = index_of((0, 3), (3, 4), (8, 12))

    assert firsts(index) == [0, 3, 8]
    assert firsts(index, 2, 4) == [0, 3]
    assert firsts(index, 3, 8) == [3]
    assert firsts(index, 4, 8) == []
    assert firsts(index, 11) == [8]
    assert firsts(index, 12) == []


def test_the_next_offset_is_behind_everything() -> None:
    assert QueueIndex().next_offset == 0
    assert index_of((5, 9)).next_offset == 9
    assert QueueIndex(next_offset=20).next_offset == 20


def test_settled_entries_at_the_head_are_released() -> None:
    index = index_of((0, 3), (3, 6), (6, 9))
    index.settled.add(0, 5)
    index.settled.add(6, 9)

    index.release()

    assert firsts(index) == [3, 6]
    assert len(index) == 2
    assert index.next_offset == 9


def test_messages_that_were_never_stored_leave_no_holes_in_what_is_settled() -> None:
    index = index_of(*[(number, number + 1) for number in range(1, 100, 2)])
    for number in range(1, 99, 2):
        index.settled.add(number, number + 1)
        index.release()

    assert (index.settled.floor, len(index.settled)) == (99, 0)
    assert firsts(index) == [99]


def test_releasing_many_entries_keeps_the_rest_right() -> None:
    index = index_of(*[(number, number + 1) for number in range(5000)])
    for number in range(0, 4990, 10):
        index.settled.add(number, number + 10)
        index.release()

    assert firsts(index) == list(range(4990, 5000))
    assert firsts(index, 4995, 4997) == [4995, 4996]
    assert index.first_at(1000 + 4996) == 4996


def test_the_first_message_at_a_time() -> None:
    index = index_of((0, 3), (3, 6), (10, 12))

    assert [index.first_at(at) for at in (0, 1000, 1001, 1002, 1003)] == [0, 0, 3, 10, 12]


def test_replacing_puts_entries_in_order_and_keeps_the_next_offset() -> None:
    index = index_of((0, 3), (3, 6), (6, 9))

    index.replace(range(200, 300), (0, 100), [])
    index.replace(
        range(100, 101), (0, 100), [IndexEntry(5, 6, 900, 1, 1001), IndexEntry(3, 4, 800, 1, 1001)]
    )

    assert [(entry.first, entry.position) for entry in index.entries()] == [
        (0, 0),
        (3, 800),
        (5, 900),
    ]
    assert index.next_offset == 9


def test_the_latest_note_about_deliveries_counts() -> None:
    index = index_of((0, 9))
    index.requeued = [(0, 5, 1), (2, 3, 2)]

    assert index.deliveries_of(0, 9) == [(0, 2, 1), (2, 3, 2), (3, 5, 1), (5, 9, 0)]
    assert index.deliveries_of(3, 5) == [(3, 5, 1)]
    assert index.deliveries_of(6, 9) == [(6, 9, 0)]


def test_notes_about_settled_messages_are_forgotten() -> None:
    index = index_of((0, 9))
    index.requeued = [(0, 2, 1), (2, 5, 1)]
    index.settled.add(0, 3)

    index.prune_requeued()

    assert index.requeued == [(2, 5, 1)]
