"""Appending, and reading alone: what goes in comes out, in the order of its priority."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import BodyTooLarge, ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import LATEST, ConsumerSpec, Entry, ReadResult, StoredMessage

Fill = Callable[..., list[int]]
ALONE = ConsumerSpec("reader-1")


def bodies(taken: ReadResult) -> list[str]:
    return [message.body.decode() for message in taken.messages]


def identity(message: StoredMessage) -> tuple[Priority, int]:
    return message.priority, message.id


# -- appending ------------------------------------------------------------------------------------


def test_a_message_comes_back_whole(engine: TopicEngine, topic: str) -> None:
    entry = Entry(
        b"\x00body\xff",
        Priority.HIGH,
        "appid-340101;sid-p0912",
        "order-4423",
        "paid",
        "192.168.0.1",
        "m-1",
        1_700_000_000_123,
        {"colour": "red", "größe": "XL"},
    )
    (number,) = engine.append(topic, [entry])

    (message,) = engine.read(topic, ALONE, 10).messages

    assert message == StoredMessage(
        number,
        Priority.HIGH,
        0,
        message.time,
        entry.body,
        entry.token,
        entry.key,
        entry.tags,
        entry.source_ip,
        entry.message_id,
        entry.born,
        entry.properties,
        1,
    )
    assert message.time > 1_600_000_000_000


def test_missing_fields_stay_missing(engine: TopicEngine, topic: str) -> None:
    engine.append(topic, [Entry(b"")])

    (message,) = engine.read(topic, ALONE, 1).messages

    assert message.body == b""
    assert message.token == ""
    assert (message.key, message.tags, message.message_id, message.born) == (None,) * 4
    assert message.source_ip in (None, "127.0.0.1")  # an engine may record where it came from
    assert message.properties == {}


@pytest.mark.parametrize("address", ["128.0.0.1", "255.255.255.255", "2001:db8::1", "0.0.0.0"])
def test_any_address_is_kept(engine: TopicEngine, topic: str, address: str) -> None:
    engine.append(topic, [Entry(b"", source_ip=address)])

    assert engine.read(topic, ALONE, 1).messages[0].source_ip == address


def test_ids_rise_and_are_given_in_the_order_of_the_entries(
    engine: TopicEngine, topic: str
) -> None:
    first = engine.append(topic, [Entry(b"a"), Entry(b"b")])
    second = engine.append(topic, [Entry(b"c")])

    assert first + second == sorted(set(first + second))
    assert bodies(engine.read(topic, ALONE, 10)) == ["a", "b", "c"]


@pytest.mark.parametrize("group", [None, "g"])
def test_the_first_message_of_a_topic_is_delivered(
    engine: TopicEngine, topic: str, fill: Fill, group: str | None
) -> None:
    fill("first")

    assert bodies(engine.read(topic, ConsumerSpec("c", group), 1)) == ["first"]


def test_a_body_of_seventy_thousand_bytes_is_fine(engine: TopicEngine, topic: str) -> None:
    body = bytes(range(256)) * 280
    engine.append(topic, [Entry(body)])

    assert engine.read(topic, ALONE, 1).messages[0].body == body


def test_a_body_above_the_limit_is_refused_and_nothing_is_stored(
    engine: TopicEngine, topic: str
) -> None:
    with pytest.raises(BodyTooLarge):
        engine.append(topic, [Entry(b"small"), Entry(bytes(engine.max_body + 1))])

    assert engine.read(topic, ALONE, 10).messages == ()


def test_messages_of_one_key_are_in_one_partition(
    engine: TopicEngine, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=4)
    keys = [f"order-{number % 5}" for number in range(40)]
    engine.append(topic, [Entry(b"%d" % n, key=key) for n, key in enumerate(keys)])

    messages = engine.read(topic, ALONE, 100).messages

    assert len(messages) == 40
    partitions = {(one.key, one.partition_index) for one in messages}
    assert len(partitions) == 5
    for key in set(keys):
        numbers = [int(one.body) for one in messages if one.key == key]
        assert numbers == sorted(numbers)


def test_messages_without_a_key_are_spread(
    engine: TopicEngine, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=3)
    engine.append(topic, [Entry(b"") for _ in range(30)])

    messages = engine.read(topic, ALONE, 100).messages

    assert {one.partition_index for one in messages} == {0, 1, 2}
    assert len({(one.partition_index, one.id) for one in messages}) == 30


# -- priorities -----------------------------------------------------------------------------------


def test_high_comes_before_middle_before_low(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("l1", "l2", priority=Priority.LOW)
    fill("m1", "m2")
    fill("h1", "h2", priority=Priority.HIGH)

    assert bodies(engine.read(topic, ALONE, 10)) == ["h1", "h2", "m1", "m2", "l1", "l2"]


def test_a_batch_has_exactly_as_many_as_asked_for(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abc", priority=Priority.HIGH)
    fill(*"defg")
    fill(*"hij", priority=Priority.LOW)

    assert bodies(engine.read(topic, ALONE, 5)) == list("abcde")


def test_a_new_high_message_is_in_the_next_batch(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abcdefgh", priority=Priority.LOW)
    taken = engine.read(topic, ALONE, 3)
    engine.commit(topic, ALONE, taken.claim)
    fill("urgent", priority=Priority.HIGH)

    assert bodies(engine.read(topic, ALONE, 3)) == ["urgent", "d", "e"]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_minimum_share_keeps_low_from_starving(
    engine: TopicEngine, topic: str, fill: Fill, group: str | None
) -> None:
    fill(*[f"h{n}" for n in range(20)], priority=Priority.HIGH)
    fill(*[f"m{n}" for n in range(20)])
    fill(*[f"l{n}" for n in range(20)], priority=Priority.LOW)
    reader = ConsumerSpec("c", group, min_share=20)

    assert bodies(engine.read(topic, reader, 10)) == [
        *[f"h{n}" for n in range(6)],
        *["m0", "m1"],
        *["l0", "l1"],
    ]


# -- a consumer on its own ------------------------------------------------------------------------


def test_nothing_there_gives_nothing_to_commit(engine: TopicEngine, topic: str) -> None:
    taken = engine.read(topic, ALONE, 10)

    assert taken == ReadResult()
    engine.commit(topic, ALONE, taken.claim)


def test_without_a_commit_the_same_messages_come_again(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"abc")
    engine.read(topic, ALONE, 2)

    assert bodies(engine.read(topic, ALONE, 2)) == ["a", "b"]


def test_a_commit_covers_all_lanes_of_the_batch(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill("h", priority=Priority.HIGH)
    fill("m")
    fill("l1", "l2", priority=Priority.LOW)
    taken = engine.read(topic, ALONE, 3)
    engine.commit(topic, ALONE, taken.claim)

    assert bodies(engine.read(topic, ALONE, 10)) == ["l2"]


def test_two_consumers_on_their_own_both_get_everything(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    for token in ("x", "X"):  # case matters
        taken = engine.read(topic, ConsumerSpec(token), 10)
        assert bodies(taken) == ["a", "b"]
        engine.commit(topic, ConsumerSpec(token), taken.claim)


def test_a_late_commit_does_not_go_back(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill(*"abcd")
    early = engine.read(topic, ALONE, 2)
    late = engine.read(topic, ALONE, 4)
    engine.commit(topic, ALONE, late.claim)
    engine.commit(topic, ALONE, early.claim)

    assert engine.read(topic, ALONE, 10) == ReadResult()


def test_a_claim_of_another_member_is_refused(engine: TopicEngine, topic: str, fill: Fill) -> None:
    fill("a")
    engine.read(topic, ConsumerSpec("other"), 1)
    taken = engine.read(topic, ALONE, 1)

    with pytest.raises(ClaimLost):
        engine.commit(topic, ConsumerSpec("other"), taken.claim)

    assert bodies(engine.read(topic, ConsumerSpec("other"), 1)) == ["a"]


def test_alone_and_in_a_group_are_two_positions(
    engine: TopicEngine, topic: str, fill: Fill
) -> None:
    fill(*"ab")
    member = ConsumerSpec(ALONE.token, "g")
    taken = engine.read(topic, ALONE, 10)
    engine.commit(topic, ALONE, taken.claim)

    assert bodies(engine.read(topic, member, 10)) == ["a", "b"]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_reader_can_begin_at_the_end(
    engine: TopicEngine, topic: str, fill: Fill, group: str | None
) -> None:
    reader = ConsumerSpec("late", group, start=LATEST)
    fill("old")
    assert engine.read(topic, reader, 10) == ReadResult()
    fill("new")
    fill("high", priority=Priority.HIGH)  # a priority that was not there before

    assert bodies(engine.read(topic, reader, 10)) == ["high", "new"]
