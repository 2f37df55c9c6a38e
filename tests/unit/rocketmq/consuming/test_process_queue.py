"""Process queues: the offset to commit never passes an unfinished message."""

from __future__ import annotations

from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from headrace.rocketmq import MessageExt, ProcessQueue
from headrace.rocketmq.consuming.process_queue import LOCK_LIFE, FlowLimits


def message(offset: int, body: bytes = b"x") -> MessageExt:
    return MessageExt("T", body, {}, "b", 0, offset, offset * 100)


def messages(*offsets: int) -> list[MessageExt]:
    return [message(offset) for offset in offsets]


def test_a_slow_message_holds_the_offset_back() -> None:
    queue = ProcessQueue()
    one, two, three = queue.put(messages(5, 6, 9))
    assert queue.commit_offset() == 5
    assert queue.remove([two]) == 5
    assert queue.remove([one]) == 9
    assert queue.remove([three]) == 10
    assert (queue.count, queue.size, queue.is_empty) == (0, 0, True)


def test_an_empty_queue_has_no_offset() -> None:
    assert ProcessQueue().commit_offset() == -1
    assert ProcessQueue().commit() == -1
    assert ProcessQueue().bounds() == (-1, -1)


def test_messages_that_are_here_already_are_not_taken_twice() -> None:
    queue = ProcessQueue()
    queue.put(messages(1, 2))
    assert [one.queue_offset for one in queue.put(messages(2, 3))] == [3]
    assert (queue.count, queue.size) == (3, 3)


def test_messages_that_come_out_of_order_find_their_place() -> None:
    queue = ProcessQueue()
    queue.put(messages(5, 8))
    queue.put(messages(3, 6))
    assert [one.queue_offset for one in queue.take(9)] == [3, 5, 6, 8]


def test_flow_control_by_count_bytes_and_span() -> None:
    queue = ProcessQueue()
    queue.put([message(0, b"x" * 100), message(1, b"x" * 100)])
    assert queue.flow_control(FlowLimits(2, 200, 2)) is None
    assert "messages" in (queue.flow_control(FlowLimits(1, 200, 2)) or "")
    assert "bytes" in (queue.flow_control(FlowLimits(2, 199, 2)) or "")
    queue.remove([message(0)])
    queue.put([message(5)])
    assert "span" in (queue.flow_control(FlowLimits(9, 999, 3)) or "")
    assert queue.flow_control(FlowLimits(9, 999, 3), orderly=True) is None


def test_orderly_take_commit_and_give_back() -> None:
    queue = ProcessQueue()
    queue.put(messages(1, 2, 3))
    assert [one.queue_offset for one in queue.take(2)] == [1, 2]
    assert queue.commit_offset() == 1
    queue.give_back()
    assert [one.queue_offset for one in queue.take(2)] == [1, 2]
    assert queue.commit() == 3
    assert (queue.count, queue.size) == (1, 1)
    assert [one.queue_offset for one in queue.take(5)] == [3]
    assert queue.commit() == 4
    assert queue.is_empty


def test_messages_in_hand_are_not_pulled_again() -> None:
    queue = ProcessQueue()
    queue.put(messages(1))
    queue.take(1)
    assert queue.put(messages(1)) == []


def test_expired_messages() -> None:
    queue = ProcessQueue()
    one, two = queue.put(messages(1, 2))
    queue.begin([one], now=100.0)
    queue.begin([two], now=150.0)
    assert queue.expired(now=160.0, limit=30.0) == [one]
    queue.remove([one])
    assert queue.expired(now=160.0, limit=30.0) == []
    assert not queue.holds(one)
    assert queue.holds(two)


def test_a_lock_is_trusted_for_half_a_minute() -> None:
    queue = ProcessQueue()
    assert not queue.holds_lock(0.0)
    queue.lock_renewed(10.0)
    assert queue.holds_lock(10.0 + LOCK_LIFE)
    assert not queue.holds_lock(10.1 + LOCK_LIFE)


@given(st.lists(st.integers(0, 60), min_size=1), st.data())
def test_the_offset_is_the_smallest_unfinished_one(offsets: list[int], data: st.DataObject) -> None:
    queue = ProcessQueue()
    put = {one.queue_offset: one for one in queue.put(messages(*offsets))}
    assert set(put) == set(offsets)
    left = dict(put)
    for offset in data.draw(st.permutations(sorted(put))):
        committed = queue.remove([left.pop(offset)])
        assert committed == (min(left) if left else max(put) + 1)


def test_sixteen_threads_finish_messages() -> None:
    queue = ProcessQueue()
    everything = queue.put(messages(*range(16_000)))
    seen: list[int] = []

    def work(number: int) -> None:
        seen.extend(queue.remove([one]) for one in everything[number::16])

    threads = [Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert max(seen) == 16_000
    assert queue.commit_offset() == 16_000
    assert (queue.count, queue.size) == (0, 0)
