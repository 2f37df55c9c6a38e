"""Groups as heartbeats tell them, and locks on queues."""

from __future__ import annotations

from headrace.server.remoting.membership import GroupMembership, Member, QueueLocks
from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.headers.groups import ConsumerGroup, Subscription
from headrace.wire.remoting.message_queue import MessageQueue

MINUTE = 60_000


def group(name: str = "g", *topics: str, version: int = 1, expression: str = "*") -> ConsumerGroup:
    subscriptions = [Subscription(topic, expression, version=version) for topic in topics]
    return ConsumerGroup(name, tuple(subscriptions))


def member(connection: str, client_id: str = "", seen: int = 0) -> Member[str]:
    return Member(client_id or f"id-{connection}", connection, Language.JAVA, 401, seen)


def test_a_new_member_and_other_topics_are_news_and_the_same_again_is_none() -> None:
    members: GroupMembership[str] = GroupMembership()

    assert members.beat(group("g", "t"), member("one"))
    assert not members.beat(group("g", "t"), member("one"))
    assert members.beat(group("g", "t"), member("two"))
    assert members.beat(group("g", "t", "u"), member("one"))
    assert members.beat(group("g", "t", "u"), member("one", "another id"))
    assert members.groups["g"].client_ids() == ["another id", "id-two"]


def test_a_heartbeat_without_subscriptions_keeps_those_of_before() -> None:
    members: GroupMembership[str] = GroupMembership()
    members.beat(group("g", "t"), member("one"))

    assert not members.beat(group("g"), member("one"), keep=True)
    assert members.find_subscription("g", "t") is not None
    assert members.beat(group("g"), member("one"))
    assert members.find_subscription("g", "t") is None


def test_an_older_expression_does_not_replace_a_younger_one() -> None:
    members: GroupMembership[str] = GroupMembership()
    members.beat(group("g", "t", version=5, expression="new"), member("one"))
    members.beat(group("g", "t", version=4, expression="old"), member("two"))
    found = members.find_subscription("g", "t")

    assert found is not None and found.expression == "new"
    members.beat(group("g", "t", version=6, expression="newer"), member("two"))
    found = members.find_subscription("g", "t")
    assert found is not None and found.expression == "newer"


def test_who_is_left_hears_of_a_leave_and_an_empty_group_is_forgotten() -> None:
    members: GroupMembership[str] = GroupMembership()
    members.beat(group(), member("one"))
    members.beat(group(), member("two"))

    assert members.leave("g", "one")
    assert not members.leave("g", "one")
    assert not members.leave("g", "two")
    assert members.groups == {}
    assert not members.leave("nobody's", "two")


def test_a_lost_connection_leaves_everything() -> None:
    members: GroupMembership[str] = GroupMembership()
    for name in ("g", "h"):
        members.beat(group(name), member("one"))
    members.beat(group("h"), member("two"))
    members.beat_producer("p", member("one"))

    assert members.remove("one") == ["h"]
    assert list(members.groups) == ["h"]
    assert members.producers == {}


def test_the_silent_are_forgotten() -> None:
    members: GroupMembership[str] = GroupMembership()
    members.beat(group(), member("one", seen=0))
    members.beat(group(), member("two", seen=MINUTE))
    members.beat_producer("p", member("one", seen=0))

    assert members.expire(2 * MINUTE) == []
    assert members.expire(2 * MINUTE + 1) == ["g"]
    assert list(members.groups["g"].members) == ["two"]
    assert members.producers == {}
    assert members.expire(9 * MINUTE) == []  # nobody is left who could hear of it


QUEUES = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]


def test_a_queue_has_one_owner_at_a_time() -> None:
    locks = QueueLocks()

    assert locks.lock("g", "one", QUEUES[:1], 0) == QUEUES[:1]
    assert locks.lock("g", "two", QUEUES, 0) == QUEUES[1:]
    assert locks.lock("other group", "two", QUEUES, 0) == QUEUES
    assert locks.owner("g", "t", 0, 0) == "one"


def test_a_lock_that_is_not_refreshed_can_be_taken() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", QUEUES, 0)
    locks.lock("g", "one", QUEUES[:1], MINUTE)

    assert locks.lock("g", "two", QUEUES, MINUTE) == []
    assert locks.lock("g", "two", QUEUES, MINUTE + 1) == QUEUES[1:]
    assert locks.owner("g", "t", 1, MINUTE + 1) == "two"
    assert locks.owner("g", "t", 1, 3 * MINUTE) is None


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("g", "one", QUEUES, 0)
    locks.unlock("g", "two", QUEUES)

    assert locks.owner("g", "t", 0, 0) == "one"
    locks.unlock("g", "one", QUEUES[:1])
    assert locks.owner("g", "t", 0, 0) is None
    assert locks.is_orderly("g", 0)
    locks.release("g", "one")
    assert not locks.is_orderly("g", 0)
    locks.unlock("g", "one", QUEUES)
    locks.release("g", "one")
