"""Offset resets: of one queue, of all, and those that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.offsets import (
    OffsetResult,
    QueryConsumerOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from headrace.wire.remoting.message_queue import take_offsets
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, join, new_topic, read, send

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def link(ours: Ours) -> Iterator[Link]:
    with Link(ours.broker_address, credentials=ours.secret()) as link:
        yield link


@pytest.fixture
def topic(ours: Ours, link: Link) -> str:
    """Two queues, ten messages in the first one."""
    name = new_topic(ours)
    for _ in range(10):
        send(link, name, b"x")
    read(link, name, 10)
    return name


def reset(link: Link, header: ResetOffset) -> Command:
    return link.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.ext())


def positions(link: Link, group: str, topic: str) -> list[int]:
    found = [link.ask(QueryConsumerOffset(group, topic, at, False)) for at in range(2)]
    return [OffsetResult.take(one.ext).offset if one.code == 0 else -1 for one in found]


def consuming(link: Link, topic: str, group: str) -> None:
    join(link, topic, group, "client-1")
    for at, offset in enumerate((10, 0)):
        accepted(link.ask(UpdateConsumerOffset(group, topic, at, offset)))


def test_a_queue_id_and_an_offset_reset_that_queue_only(link: Link, topic: str) -> None:
    consuming(link, topic, "G-one")
    answer = reset(link, ResetOffset(topic, "G-one", 0, True, 0, 7))

    offsets = take_offsets("offsetTable", accepted(answer).body)
    assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 7}
    assert positions(link, "G-one", topic) == [7, 0]
    notice = link.wait_for_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert take_offsets("offsetTable", notice.body) == offsets


@pytest.mark.parametrize("offset", [11, 1 << 40, -5])
def test_an_offset_outside_of_the_queue_is_refused(link: Link, topic: str, offset: int) -> None:
    consuming(link, topic, "G-range")
    answer = reset(link, ResetOffset(topic, "G-range", 0, True, 0, offset))

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "0 to 10" in (answer.remark or "")
    assert positions(link, "G-range", topic) == [10, 0]


def test_a_queue_that_does_not_exist_is_refused(link: Link, topic: str) -> None:
    consuming(link, topic, "G-queue")

    for queue_id in (2, 99):
        answer = reset(link, ResetOffset(topic, "G-queue", 0, True, queue_id, 0))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "0 to 1" in (answer.remark or "")


def test_empty_queues_get_a_position_too(link: Link, topic: str) -> None:
    join(link, topic, "G-new", "client-1")
    accepted(reset(link, ResetOffset(topic, "G-new", 0)))

    assert positions(link, "G-new", topic) == [0, 0]


def test_without_force_a_group_is_only_reset_backwards(link: Link, topic: str) -> None:
    consuming(link, topic, "G-soft")
    accepted(reset(link, ResetOffset(topic, "G-soft", 0, False)))
    assert positions(link, "G-soft", topic) == [0, 0]

    accepted(reset(link, ResetOffset(topic, "G-soft", -1, False)))
    assert positions(link, "G-soft", topic) == [0, 0]


def test_a_group_that_does_not_exist_is_refused(link: Link, topic: str) -> None:
    for answer in (
        reset(link, ResetOffset(topic, "G-mistyped", 0)),
        link.ask(UpdateConsumerOffset("G-mistyped", topic, 0, 3)),  # what mqadmin sends before
    ):
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert "G-mistyped" in (answer.remark or "")
    assert positions(link, "G-mistyped", topic) == [-1, -1]


def test_a_topic_that_does_not_exist_is_refused(link: Link, topic: str) -> None:
    consuming(link, topic, "G-lost")
    for answer in (
        reset(link, ResetOffset("T-missing", "G-lost", 0)),
        link.ask(UpdateConsumerOffset("G-lost", "T-missing", 0, 3)),
    ):
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
