"""Queues leased to one member: order within a key."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]
A, B = ConsumerSpec("a", "g"), ConsumerSpec("b", "g")


@pytest.fixture
def engine(start_engine: StartEngine) -> MySqlEngine:
    engine = start_engine()
    engine.create(TopicSpec("t", queues=4))
    return engine


def test_messages_of_a_key_are_in_one_queue_in_order(engine: MySqlEngine) -> None:
    engine.append("t", [Entry(b"%d" % number, key=f"k{number % 5}") for number in range(100)])
    found: dict[str, list[int]] = {}
    for queue in range(4):
        held = engine.queue_leases.lease("t", A, Priority.MIDDLE, queue)
        assert held is not None
        for message in engine.queue_leases.read("t", held, 1000):
            assert message.key is not None and message.partition_index == queue
            found.setdefault(message.key, []).append(int(message.body))
    assert found == {f"k{key}": list(range(key, 100, 5)) for key in range(5)}


def test_a_queue_is_leased_to_one_member_until_its_lease_is_over(
    engine: MySqlEngine, sql: Cursor
) -> None:
    engine.append("t", [Entry(b"x", key="k") for _ in range(4)])
    [queue] = {one.partition_index for one in engine.read("t", ConsumerSpec("look"), 4).messages}
    held = engine.queue_leases.lease("t", A, Priority.MIDDLE, queue)
    assert held is not None
    assert engine.queue_leases.lease("t", B, Priority.MIDDLE, queue) is None
    assert (
        engine.queue_leases.lease("t", ConsumerSpec("b", "other"), Priority.MIDDLE, queue)
        is not None
    )
    first = engine.queue_leases.read("t", held, 2)
    engine.queue_leases.commit("t", held, first[-1].id)
    sql.execute("UPDATE msg_c_t SET lease_until_ms=1")
    taken = engine.queue_leases.lease("t", B, Priority.MIDDLE, queue)
    assert taken is not None and taken.position == 2
    with pytest.raises(ClaimLost, match="'a' does not hold the lease"):
        engine.queue_leases.commit("t", held, 4)
    assert [one.id for one in engine.queue_leases.read("t", taken, 10)] == [3, 4]
    engine.queue_leases.release("t", taken)
    back = engine.queue_leases.lease("t", A, Priority.MIDDLE, queue)
    assert back is not None and back.position == 2
