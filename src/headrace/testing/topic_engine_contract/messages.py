"""Appending, and reading alone: what goes in comes out, in the order of its priority."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import BodyTooLarge, ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import LATEST, ConsumerSpec, Entry, ReadResult, StoredMessage
from headrace.testing.topic_engine_contract.fixtures import Subject, bodies

ALONE = ConsumerSpec("reader-1")


# -- appending ------------------------------------------------------------------------------------


def test_a_message_comes_back_whole(subject: Subject) -> None:
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
    (number,) = subject.engine.append(subject.name, [entry])

    (message,) = subject.read(ALONE).messages

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


def test_missing_fields_stay_missing(subject: Subject) -> None:
    subject.engine.append(subject.name, [Entry(b"")])

    (message,) = subject.read(ALONE, 1).messages

    assert message.body == b""
    assert message.token == ""
    assert (message.key, message.tags, message.message_id, message.born) == (None,) * 4
    assert message.source_ip in (None, "127.0.0.1")  # an engine may record where it came from
    assert message.properties == {}


@pytest.mark.parametrize("address", ["128.0.0.1", "255.255.255.255", "2001:db8::1", "0.0.0.0"])
def test_any_address_is_kept(subject: Subject, address: str) -> None:
    subject.engine.append(subject.name, [Entry(b"", source_ip=address)])

    assert subject.read(ALONE, 1).messages[0].source_ip == address


def test_ids_rise_and_are_given_in_the_order_of_the_entries(subject: Subject) -> None:
    first = subject.engine.append(subject.name, [Entry(b"a"), Entry(b"b")])
    second = subject.engine.append(subject.name, [Entry(b"c")])

    assert first + second == sorted(set(first + second))
    assert subject.bodies(ALONE) == ["a", "b", "c"]


@pytest.mark.parametrize("group", [None, "g"])
def test_the_first_message_of_a_topic_is_delivered(subject: Subject, group: str | None) -> None:
    subject.fill("first")

    assert subject.bodies(ConsumerSpec("c", group), 1) == ["first"]


def test_a_body_of_seventy_thousand_bytes_is_fine(subject: Subject) -> None:
    body = bytes(range(256)) * 280
    subject.engine.append(subject.name, [Entry(body)])

    assert subject.read(ALONE, 1).messages[0].body == body


def test_a_body_above_the_limit_is_refused_and_nothing_is_stored(subject: Subject) -> None:
    with pytest.raises(BodyTooLarge):
        subject.engine.append(
            subject.name, [Entry(b"small"), Entry(bytes(subject.engine.max_body + 1))]
        )

    assert subject.read(ALONE).messages == ()


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


def test_high_comes_before_middle_before_low(subject: Subject) -> None:
    subject.fill("l1", "l2", priority=Priority.LOW)
    subject.fill("m1", "m2")
    subject.fill("h1", "h2", priority=Priority.HIGH)

    assert subject.bodies(ALONE) == ["h1", "h2", "m1", "m2", "l1", "l2"]


def test_a_batch_has_exactly_as_many_as_asked_for(subject: Subject) -> None:
    subject.fill(*"abc", priority=Priority.HIGH)
    subject.fill(*"defg")
    subject.fill(*"hij", priority=Priority.LOW)

    assert subject.bodies(ALONE, 5) == list("abcde")


def test_a_new_high_message_is_in_the_next_batch(subject: Subject) -> None:
    subject.fill(*"abcdefgh", priority=Priority.LOW)
    taken = subject.read(ALONE, 3)
    subject.commit(ALONE, taken)
    subject.fill("urgent", priority=Priority.HIGH)

    assert subject.bodies(ALONE, 3) == ["urgent", "d", "e"]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_minimum_share_keeps_low_from_starving(subject: Subject, group: str | None) -> None:
    subject.fill(*[f"h{n}" for n in range(20)], priority=Priority.HIGH)
    subject.fill(*[f"m{n}" for n in range(20)])
    subject.fill(*[f"l{n}" for n in range(20)], priority=Priority.LOW)
    reader = ConsumerSpec("c", group, min_share=20)

    assert subject.bodies(reader) == [
        *[f"h{n}" for n in range(6)],
        *["m0", "m1"],
        *["l0", "l1"],
    ]


# -- a consumer on its own ------------------------------------------------------------------------


def test_nothing_there_gives_nothing_to_commit(subject: Subject) -> None:
    taken = subject.read(ALONE)

    assert taken == ReadResult()
    subject.commit(ALONE, taken)


def test_without_a_commit_the_same_messages_come_again(subject: Subject) -> None:
    subject.fill(*"abc")
    subject.read(ALONE, 2)

    assert subject.bodies(ALONE, 2) == ["a", "b"]


def test_a_commit_covers_all_lanes_of_the_batch(subject: Subject) -> None:
    subject.fill("h", priority=Priority.HIGH)
    subject.fill("m")
    subject.fill("l1", "l2", priority=Priority.LOW)
    taken = subject.read(ALONE, 3)
    subject.commit(ALONE, taken)

    assert subject.bodies(ALONE) == ["l2"]


def test_two_consumers_on_their_own_both_get_everything(subject: Subject) -> None:
    subject.fill(*"ab")
    for token in ("x", "X"):  # case matters
        taken = subject.read(ConsumerSpec(token))
        assert bodies(taken) == ["a", "b"]
        subject.commit(ConsumerSpec(token), taken)


def test_a_late_commit_does_not_go_back(subject: Subject) -> None:
    subject.fill(*"abcd")
    early = subject.read(ALONE, 2)
    late = subject.read(ALONE, 4)
    subject.commit(ALONE, late)
    subject.commit(ALONE, early)

    assert subject.read(ALONE) == ReadResult()


def test_a_claim_of_another_member_is_refused(subject: Subject) -> None:
    subject.fill("a")
    subject.read(ConsumerSpec("other"), 1)
    taken = subject.read(ALONE, 1)

    with pytest.raises(ClaimLost):
        subject.commit(ConsumerSpec("other"), taken)

    assert subject.bodies(ConsumerSpec("other"), 1) == ["a"]


def test_alone_and_in_a_group_are_two_positions(subject: Subject) -> None:
    subject.fill(*"ab")
    member = ConsumerSpec(ALONE.token, "g")
    taken = subject.read(ALONE)
    subject.commit(ALONE, taken)

    assert subject.bodies(member) == ["a", "b"]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_reader_can_begin_at_the_end(subject: Subject, group: str | None) -> None:
    reader = ConsumerSpec("late", group, start=LATEST)
    subject.fill("old")
    assert subject.read(reader) == ReadResult()
    subject.fill("new")
    subject.fill("high", priority=Priority.HIGH)  # a priority that was not there before

    assert subject.bodies(reader) == ["high", "new"]
