"""Queues bound to a topic of a database get what other nodes append, from the binding on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.client import ConnectionFactory
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import Entry, TopicSpec
from headrace.testing import wait_for
from support import brokers
from support.brokers import Broker
from support.mariadb import MariaDb

_numbers = count(1)


@pytest.fixture
def database(mariadb_server: MariaDb) -> Iterator[str]:
    name = f"taps_{next(_numbers)}"
    mariadb_server.create_database(name)
    yield name
    with mariadb_server.connect(None) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


@pytest.fixture
def other(mariadb_server: MariaDb, database: str) -> Iterator[MySqlEngine]:
    """What another node does; there is a topic `jobs`."""
    engine = MySqlEngine(mariadb_server.url(database, housekeeping="off"))
    engine.create(TopicSpec("jobs"))
    yield engine
    engine.close()


@pytest.fixture
def node(
    mariadb_server: MariaDb, database: str, other: MySqlEngine, tmp_path: Path
) -> Iterator[Broker]:
    url = mariadb_server.url(database, grace_ms=10)
    node = brokers.start(tmp_path, "--engine", f"shop={url}")
    yield node
    node.stop()


@pytest.fixture
def channel(node: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("tap", durable=True)
        yield channel


def by_amqp(node: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(node.url)) as connection:
        connection.channel().queue_bind("tap", "topic.jobs", "#")


def by_native(node: Broker) -> None:
    with ConnectionFactory(port=node.native_port).new_connection() as connection:
        connection.create_channel().queue_bind("tap", "topic.jobs", "#")


def by_http(node: Broker) -> None:
    url = f"http://127.0.0.1:{node.ports['http']}/api/bindings/%2F/e/topic.jobs/q/tap"
    answer = httpx.post(url, json={"routing_key": "#"}, auth=("guest", "guest"), timeout=30)
    assert answer.status_code == 201


@pytest.mark.parametrize("bind", [by_amqp, by_native, by_http])
def test_a_binding_is_answered_when_the_topic_is_followed(
    mariadb_server: MariaDb,
    database: str,
    other: MySqlEngine,
    node: Broker,
    channel: BlockingChannel,
    bind: Callable[[Broker], None],
) -> None:
    running = threading.Thread(target=bind, args=(node,), daemon=True)
    with mariadb_server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES msg_c_jobs WRITE")  # the cursor cannot be placed

        def is_being_placed() -> bool:
            cursor.execute("SHOW PROCESSLIST")
            return any("msg_c_jobs" in (row[7] or "") for row in cursor.fetchall())

        running.start()
        wait_for(is_being_placed)
        running.join(0.3)
        assert running.is_alive()
        cursor.execute("UNLOCK TABLES")
    running.join(30)
    other.append("jobs", [Entry(b"x")])
    wait_for(lambda: channel.basic_get("tap", auto_ack=True)[2] == b"x")


def test_a_queue_that_is_bound_again_gets_nothing_of_the_time_between(
    other: MySqlEngine, channel: BlockingChannel
) -> None:
    channel.queue_bind("tap", "topic.jobs", "#")
    other.append("jobs", [Entry(b"1")])
    wait_for(lambda: channel.basic_get("tap", auto_ack=True)[2] == b"1")
    channel.queue_unbind("tap", "topic.jobs", "#")
    other.append("jobs", [Entry(b"between")])
    channel.queue_bind("tap", "topic.jobs", "#")
    other.append("jobs", [Entry(b"2")])
    wait_for(lambda: channel.queue_declare("tap", passive=True).method.message_count > 0)
    assert channel.basic_get("tap", auto_ack=True)[2] == b"2"
