"""Topics in a database behind brokers: two nodes, one truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.errors import ClaimLost, TopicConflict
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicSpec
from headrace.testing import RunningBroker, run_broker, wait_for
from support import mariadb
from support.mariadb import MariaDb
from support.native_topics import NativeEngine

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    running = mariadb.prepared(tmp_path_factory.mktemp("mariadb"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def nodes(server: MariaDb) -> Iterator[list[RunningBroker]]:
    """Two brokers on one database."""
    name = f"nodes_{next(_numbers)}"
    with server.connect(None) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    url = server.url(name)
    with ExitStack() as stack:
        yield [stack.enter_context(run_broker(engine={"shop": url})) for _ in range(2)]


@pytest.fixture
def engines(nodes: list[RunningBroker]) -> Iterator[list[NativeEngine]]:
    made = [NativeEngine((node.host, node.native_port or 0), "shop") for node in nodes]
    yield made
    for engine in made:
        engine.close()


@pytest.fixture
def topic(engines: list[NativeEngine]) -> Iterator[str]:
    """A topic that both nodes know."""
    name = f"t_{uuid4().hex[:12]}"
    engines[0].create(TopicSpec(name))
    wait_for(lambda: name in [info.name for info in engines[1].topics()])
    yield name
    engines[0].delete(name)


@pytest.fixture
def channels(nodes: list[RunningBroker]) -> Iterator[list[BlockingChannel]]:
    connections = [pika.BlockingConnection(pika.URLParameters(node.amqp_url)) for node in nodes]
    channels = [connection.channel() for connection in connections]
    for channel in channels:
        channel.confirm_delivery()
    yield channels
    for connection in connections:
        connection.close()


def known(engine: NativeEngine, topic: str) -> bool:
    try:
        engine.read(topic, ConsumerSpec("probe"), 1)
    except Exception:
        return False
    return True


def bodies(taken: ReadResult) -> list[str]:
    return [one.body.decode() for one in taken.messages]


def test_a_group_has_members_on_both_nodes(engines: list[NativeEngine], topic: str) -> None:
    wait_for(lambda: known(engines[1], topic), timeout=15)
    engines[0].append(topic, [Entry(b"%d" % n) for n in range(6)])
    ann, bob = ConsumerSpec("ann", "g"), ConsumerSpec("bob", "g")

    first = engines[0].read(topic, ann, 3)
    second = engines[1].read(topic, bob, 10)

    assert sorted(bodies(first) + bodies(second)) == [str(n) for n in range(6)]
    with pytest.raises(ClaimLost):
        engines[1].commit(topic, bob, first.claim)
    engines[1].commit(topic, ann, first.claim)  # the node does not matter
    engines[1].commit(topic, bob, second.claim)
    assert all(lag.messages == 0 for lag in engines[0].lag(topic, ann))


def test_a_waiting_reader_gets_what_the_other_node_appends(
    engines: list[NativeEngine], topic: str
) -> None:
    wait_for(lambda: known(engines[1], topic), timeout=15)
    rid = engines[1].line.send(0x24, topic=topic, token="c", batch=5, wait_ms=30_000)
    engines[0].append(topic, [Entry(b"x", Priority.HIGH)])

    assert [one[4] for one in engines[1].line.receive(rid)["messages"]] == [b"x"]


def test_queues_of_both_nodes_are_fed_by_a_publisher_of_one(
    engines: list[NativeEngine], channels: list[BlockingChannel], topic: str
) -> None:
    wait_for(lambda: known(engines[1], topic), timeout=15)
    queues = []
    for channel in channels:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, f"topic.{topic}", "paid")
        queues.append(queue)

    def fed() -> bool:
        # Until the other node follows the topic, what is published is before its beginning.
        channels[0].basic_publish(f"topic.{topic}", "paid", b"x")
        return all(
            channel.queue_declare(queue, passive=True).method.message_count
            for channel, queue in zip(channels, queues, strict=True)
        )

    wait_for(fed, timeout=20, interval=0.1)
    assert channels[1].basic_get(queues[1], auto_ack=True)[2] == b"x"


def test_the_log_cannot_have_a_topic_of_that_name(
    nodes: list[RunningBroker], engines: list[NativeEngine], topic: str
) -> None:
    other = NativeEngine((nodes[0].host, nodes[0].native_port or 0))
    with pytest.raises(TopicConflict, match="engine 'shop'"):
        other.create(TopicSpec(topic))
    other.close()


def test_bindings_and_topics_are_there_after_a_restart(
    nodes: list[RunningBroker], engines: list[NativeEngine], topic: str
) -> None:
    node = nodes[1]
    wait_for(lambda: known(engines[1], topic), timeout=15)
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare(topic, durable=True)
        channel.queue_bind(topic, f"topic.{topic}", "#")
    # The first append waits until this node follows the topic; another node's does not.
    engines[1].append(topic, [Entry(b"first")])
    engines[0].append(topic, [Entry(b"before")])

    def count_of() -> int:
        return node.queue(topic).messages

    wait_for(lambda: count_of() == 2, timeout=60)
    engines[1].close()
    node.restart()
    engines[0].append(topic, [Entry(b"after")])

    # What was read shortly before a stop may be read again: the cursor is stored afterwards.
    wait_for(lambda: count_of() >= 3, timeout=60)
    found = []
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()

        def has_all() -> bool:
            body = channel.basic_get(topic, auto_ack=True)[2]
            found.append(body)
            return {b"first", b"before", b"after"} <= {*found}

        wait_for(has_all, timeout=60)
        channel.queue_delete(topic)
