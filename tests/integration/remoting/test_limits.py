"""What a message may hold: properties, bodies, frames, and how many a pull returns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pika
import pytest

from headrace.testing import run_broker
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.pull import PullResult, QueryMessage
from headrace.wire.remoting.headers.route import GetRouteInfo, TopicRoute
from headrace.wire.remoting.headers.send import SendMessage, SendResponse
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.properties import properties_bytes, properties_text
from support.raw_remoting import Link
from support.remoting_bodies import RemotingMessage, route_address, take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import BORN, accepted, new_topic, pull, read

pytestmark = pytest.mark.timeout(60)

MIB = 1 << 20
CLIENT_FRAME = 16 * MIB  # of Java: com.rocketmq.remoting.frameMaxLength


@pytest.fixture
def link(ours: Ours) -> Iterator[Link]:
    with Link(ours.broker_address) as link:
        yield link


@pytest.fixture
def topic(ours: Ours) -> str:
    return new_topic(ours)


def send(link: Link, topic: str, text: str, body: bytes = b"x", queue_id: int = 0) -> Command:
    header = SendMessage("PG", topic, queue_id, 0, BORN, properties=text)
    return link.call(RequestCode.SEND_MESSAGE_V2, header.ext_v2(), body)


def send_batch(link: Link, topic: str, *properties: bytes) -> Command:
    header = SendMessage("PG", topic, 0, 0, BORN, batch=True)
    body = batch_bytes([BatchElement(0, b"x", one) for one in properties])
    return link.call(RequestCode.SEND_BATCH_MESSAGE, header.ext_v2(), body)


def messages(answer: Command) -> list[RemotingMessage]:
    return list(take_messages(accepted(answer).body))


# -- properties --------------------------------------------------------------------------------


def test_properties_that_cannot_be_kept_are_refused(link: Link, topic: str) -> None:
    for given in ({"big": "x" * 33_000}, {f"p{at}": "x" * 40 for at in range(1000)}):
        text = "".join(f"{name}\x01{value}\x02" for name, value in given.items())
        answer = send(link, topic, text)

        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "32000" in (answer.remark or "")


def test_characters_of_several_bytes_count_as_such(link: Link, topic: str) -> None:
    assert send(link, topic, "p\x01" + "書" * 11_000).code == ResponseCode.MESSAGE_ILLEGAL
    accepted(send(link, topic, "p\x01" + "書" * 10_600))

    (message,) = read(link, topic, 1)
    assert message.properties["p"] == "書" * 10_600


def test_properties_of_a_batch_that_cannot_be_kept_are_refused(link: Link, topic: str) -> None:
    good, bad = properties_bytes({"a": "b"}), b"p\x01" + b"x" * 32_500
    assert send_batch(link, topic, good, bad).code == ResponseCode.MESSAGE_ILLEGAL
    accepted(send_batch(link, topic, good))

    assert len(read(link, topic, 1)) == 1  # nothing of the first batch


@pytest.mark.parametrize("in_batch", [False, True])
def test_names_of_the_broker_are_refused(link: Link, topic: str, in_batch: bool) -> None:
    text = properties_text({"$rocketmq.flag": "7"})
    answer = send_batch(link, topic, text.encode()) if in_batch else send(link, topic, text)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "$rocketmq." in (answer.remark or "")


def test_a_value_may_contain_the_character_that_ends_names(link: Link, topic: str) -> None:
    accepted(send(link, topic, "a\x01one\x01two\x02b\x01$rocketmq.\x02"))

    (message,) = read(link, topic, 1)
    assert message.properties["a"] == "one\x01two"
    assert message.properties["b"] == "$rocketmq."


@pytest.mark.parametrize("text", ["a\x01one\x02two\x02", "\x01value\x02", "a\x01b\x02rest"])
def test_properties_without_a_name_are_refused(link: Link, topic: str, text: str) -> None:
    for answer in (send(link, topic, text), send_batch(link, topic, text.encode())):
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "no name" in (answer.remark or "")
    accepted(send(link, topic, "a\x01one\x02\x02empty\x01\x02b\x01two"))

    (message,) = read(link, topic, 1)
    assert (message.properties["a"], message.properties["b"]) == ("one", "two")


# -- sizes -------------------------------------------------------------------------------------


def test_bodies_above_the_limit_are_refused_and_the_connection_stays(
    link: Link, topic: str
) -> None:
    accepted(send(link, topic, "", bytes(4 * MIB)))
    answer = send(link, topic, "", bytes(4 * MIB + 1))

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "rocketmq_max_message_size" in (answer.remark or "")
    assert send(link, topic, "", bytes(16 * MIB)).code == ResponseCode.MESSAGE_ILLEGAL
    assert len(read(link, topic, 1)) == 1


def test_a_large_message_is_not_returned_behind_small_ones() -> None:
    with run_broker(sync=False, rocketmq_max_message_size="15MiB") as broker:
        ours = Ours(broker)
        topic = new_topic(ours)
        with Link(ours.broker_address) as link:
            for size in (MIB, 100, 15 * MIB, 100):
                accepted(send(link, topic, "KEYS\x01k\x02", bytes(size)))
            read(link, topic, 1)
            answers = [pull(link, topic, at) for at in range(4)]
            queried = link.ask(QueryMessage(topic, "k", 10, 0, 1 << 60))

    assert [[len(one.body) for one in messages(answer)] for answer in answers] == [
        [MIB], [100], [15 * MIB], [100],
    ]  # fmt: skip
    assert all(len(answer.body) < CLIENT_FRAME for answer in [*answers, queried])


def test_a_message_that_clients_cannot_read_is_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with run_broker(sync=False, max_message_size="20MiB") as broker:
        ours = Ours(broker)
        with Link(ours.broker_address) as link:
            accepted(link.ask(CreateTopic("large", 1, 1)))
            connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
            channel = connection.channel()
            channel.confirm_delivery()
            for body in (bytes(17 * MIB), b"small"):
                channel.basic_publish("topic.large", "", body)
            connection.close()
            with caplog.at_level(logging.WARNING):
                first = pull(link, "large")
            following = PullResult.take(first.ext).next_begin_offset
            if first.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
                first = pull(link, "large", following)
            shown = json.loads(link.call(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]

    assert [one.body for one in messages(first)] == [b"small"]
    assert int(shown["messagesSkippedTooLarge"]) >= 1
    assert "offset 0 is skipped" in caplog.text


def test_a_producer_may_send_a_large_message_at_once(ours: Ours, topic: str) -> None:
    with Link(ours.broker_address) as link:
        accepted(send(link, topic, "", bytes(3 * MIB)))


# -- pulls and queues --------------------------------------------------------------------------


def test_a_pull_returns_32_messages_at_most(link: Link, topic: str) -> None:
    accepted(send_batch(link, topic, *[b""] * 40))
    read(link, topic, 32)

    assert len(messages(pull(link, topic, 0, max_msg_nums=1000))) == 32


def test_the_limit_of_pulls_is_a_setting() -> None:
    with run_broker(sync=False, rocketmq_pull_limit=40) as broker:
        ours = Ours(broker)
        topic = new_topic(ours)
        with Link(ours.broker_address) as link:
            accepted(send_batch(link, topic, *[b""] * 50))
            found = messages(pull(link, topic, 0, max_msg_nums=1000))

    assert len(found) == 40


@pytest.mark.parametrize("queue_id", [-1, -7])
def test_the_broker_chooses_where_the_queue_id_is_negative(
    link: Link, topic: str, queue_id: int
) -> None:
    stored = SendResponse.take(accepted(send(link, topic, "", queue_id=queue_id)).ext)

    assert stored.queue_id in (0, 1)


@pytest.mark.parametrize("key", ["DefaultCluster", "headrace", "TBW102"])
def test_topics_can_be_created_by_the_name_of_cluster_and_broker(ours: Ours, key: str) -> None:
    with Link(ours.name_address) as link:
        route = TopicRoute.take(accepted(link.ask(GetRouteInfo(key))).body)

    assert route_address(route, ours.broker_name) == ours.broker_address
    assert route.queues[0].perm == 7
