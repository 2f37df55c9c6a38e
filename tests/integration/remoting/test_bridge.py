"""RocketMQ and AMQP clients on the same topic."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.testing import run_broker, wait_for
from headrace.wire.remoting.codes import PullFlag, ResponseCode
from headrace.wire.remoting.headers.admin import CreateTopic
from headrace.wire.remoting.headers.offsets import GetMaxOffset, OffsetResult
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from headrace.wire.remoting.properties import properties_text
from support.raw_remoting import Link
from support.remoting_bodies import RemotingMessage, take_messages
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted

pytestmark = pytest.mark.timeout(60)

COMPRESSED = 1


@pytest.fixture(scope="module")
def site() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)


@pytest.fixture
def link(site: Ours) -> Iterator[Link]:
    with Link(site.broker_address) as link:
        yield link


@pytest.fixture
def topic(link: Link) -> str:
    name = f"T{uuid4().hex}"
    accepted(link.ask(CreateTopic(name, 1, 1)))
    return name


@pytest.fixture
def channel(site: Ours) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(site.broker.amqp_url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def bound(channel: BlockingChannel, topic: str, key: str) -> str:
    name: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(name, f"topic.{topic}", key)
    return name


def send(link: Link, topic: str, body: bytes, sys_flag: int = 0, **properties: str) -> None:
    header = SendMessage("PG", topic, 0, sys_flag, 1_700_000_000_000, 0,
                         properties_text({"UNIQ_KEY": "U-1", **properties}))  # fmt: skip
    accepted(link.ask(header, body))


def only(link: Link, topic: str) -> RemotingMessage:
    """The first message; waits for it."""
    held = int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)
    wanted = PullMessage("CG", topic, 0, 0, 1, held, suspend_timeout_millis=20_000)
    (message,) = take_messages(accepted(link.ask(wanted)).body)
    return message


def test_a_rocketmq_producer_feeds_a_queue_bound_by_tag(
    link: Link, channel: BlockingChannel, topic: str
) -> None:
    paid, everything = bound(channel, topic, "paid"), bound(channel, topic, "#")
    send(link, topic, b"one", TAGS="paid", KEYS="k1 k2", colour="red")
    send(link, topic, b"two", TAGS="open", KEYS="k3")

    method, properties, body = channel.basic_get(paid, auto_ack=True)

    assert method is not None
    assert (method.exchange, method.routing_key, body) == (f"topic.{topic}", "paid", b"one")
    assert properties.headers == {"KEYS": "k1 k2", "colour": "red"}
    assert (properties.message_id, properties.timestamp) == ("U-1", 1_700_000_000)
    assert channel.basic_get(paid)[0] is None
    assert [channel.basic_get(everything, auto_ack=True)[2] for _ in range(2)] == [b"one", b"two"]


def test_a_compressed_body_is_read_by_every_protocol(
    link: Link, channel: BlockingChannel, topic: str
) -> None:
    queue = bound(channel, topic, "#")
    send(link, topic, zlib.compress(b"long " * 2000), COMPRESSED)

    assert channel.basic_get(queue, auto_ack=True)[2] == b"long " * 2000
    assert only(link, topic).body == b"long " * 2000
    bomb = zlib.compress(bytes(64 << 20))
    answer = link.ask(SendMessage("PG", topic, 0, COMPRESSED, 1), bomb)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    junk = link.ask(SendMessage("PG", topic, 0, COMPRESSED, 1), b"junk")
    assert junk.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_delayed_message_reaches_the_queue_when_its_time_has_come(
    link: Link, channel: BlockingChannel, topic: str
) -> None:
    queue = bound(channel, topic, "#")
    send(link, topic, b"late", TAGS="t", DELAY="1")
    assert channel.basic_get(queue)[0] is None
    found: list[bytes] = []

    def came() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            assert properties.headers == {"DELAY": "1", "REAL_TOPIC": topic, "REAL_QID": "0"}
            found.append(body)
        return bool(found)

    wait_for(came)
    assert found == [b"late"]


def test_an_amqp_publish_lands_in_a_rocketmq_consumer(
    link: Link, channel: BlockingChannel, topic: str
) -> None:
    properties = pika.BasicProperties(
        message_id="m-1",
        correlation_id="c-1",
        timestamp=1_700_000_000,
        headers={"KEYS": "k1 k2", "colour": "red", "size": 7},
    )
    channel.basic_publish(f"topic.{topic}", "paid", b"one", properties)
    channel.basic_publish(f"topic.{topic}", "open", b"two")

    message = only(link, topic)

    assert (message.body, message.tags, message.keys) == (b"one", "paid", ["k1", "k2"])
    assert message.properties["colour"] == "red"
    assert message.properties["amqp.correlation_id"] == "c-1"
    assert message.properties["UNIQ_KEY"] == "m-1"
    assert "amqp.raw" not in message.properties
    assert message.born_timestamp == 1_700_000_000_000
    chosen = PullMessage("CG", topic, 0, 0, 9, int(PullFlag.SUBSCRIPTION), subscription="open")
    assert [one.body for one in take_messages(accepted(link.ask(chosen)).body)] == [b"two"]


def test_an_amqp_publish_can_wait_before_it_reaches_the_topic(
    link: Link, channel: BlockingChannel, topic: str
) -> None:
    later = f"later-{topic}"
    channel.exchange_declare(
        later, "x-delayed-message", arguments={"x-delayed-type": "topic"}, auto_delete=True
    )
    channel.exchange_bind(f"topic.{topic}", later, "#")
    delayed = pika.BasicProperties(headers={"x-delay": 200})
    channel.basic_publish(later, "paid", b"late", delayed)
    assert OffsetResult.take(link.ask(GetMaxOffset(topic, 0)).ext).offset == 0

    message = only(link, topic)

    assert (message.body, message.tags) == (b"late", "paid")
