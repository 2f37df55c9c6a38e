"""A database that is away, refuses, or was tampered with: clear errors, and it heals by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pika
import pytest
from pika.exceptions import NackError

import headrace
from headrace import topics
from headrace.errors import BrokerError, EngineUnavailable, StoreError
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import Entry, TopicSpec
from headrace.testing import wait_for
from headrace.topics.remote_engine import RemoteEngine
from support import brokers
from support.brokers import Broker
from support.mariadb import PASSWORD, MariaDb

_numbers = count(1)
StartNode = Callable[[], Broker]


@pytest.fixture
def database(mariadb_server: MariaDb) -> Iterator[str]:
    name = f"away_{next(_numbers)}"
    mariadb_server.create_database(name)
    yield name
    with mariadb_server.connect(None) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


@pytest.fixture
def start_node(mariadb_server: MariaDb, database: str, tmp_path: Path) -> Iterator[StartNode]:
    """A broker on the database; the second one started goes on with the files of the first."""
    started: list[Broker] = []
    url = mariadb_server.url(database, grace_ms=10, connect_timeout=2)

    def start() -> Broker:
        started.append(brokers.start(tmp_path, "--engine", f"shop={url}"))
        return started[-1]

    yield start
    for node in started:
        node.stop()


def store_of(node: Broker) -> topics.Store:
    return topics.open(f"headrace://guest:guest@127.0.0.1:{node.native_port}/")


def is_read(store: topics.Store, wanted: set[bytes]) -> Callable[[], bool]:
    """Whether all of them have come by now."""
    consumer = store.consumer("jobs", token="c")
    got: set[bytes] = set()

    def read() -> bool:
        batch = consumer.read(100)
        consumer.commit(batch)
        got.update(one.body for one in batch)
        return wanted <= got

    return read


def test_a_broker_starts_without_its_database_and_finds_it_later(
    mariadb_server: MariaDb, start_node: StartNode
) -> None:
    first = start_node()
    with store_of(first) as store, pika.BlockingConnection(pika.URLParameters(first.url)) as amqp:
        store.create("jobs", engine="shop")
        channel = amqp.channel()
        channel.queue_declare("tap", durable=True)
        channel.queue_bind("tap", "topic.jobs", "#")
    first.stop()
    mariadb_server.kill()
    try:
        node = start_node()
        with pika.BlockingConnection(pika.URLParameters(node.url)) as amqp:
            channel = amqp.channel()
            channel.confirm_delivery()
            channel.queue_declare("plain")
            channel.basic_publish("", "plain", b"x")  # what needs no database works
            assert channel.basic_get("plain", auto_ack=True)[2] == b"x"
            with pytest.raises(NackError):
                channel.basic_publish("topic.jobs", "k", b"too early")
            channel.queue_declare("second", durable=True)
            channel.queue_bind("second", "topic.jobs", "#")
        with store_of(node) as store, pytest.raises(EngineUnavailable, match="been reachable yet"):
            store.consumer("jobs", token="c")
        assert PASSWORD not in node.log() and "'shop' is unreachable" in node.log()
    finally:
        mariadb_server.start()
    with store_of(node) as store:
        wait_for(lambda: "jobs" in [one.name for one in store.list()], timeout=20)
        store.producer("jobs", token="p").append(b"now")
        wait_for(is_read(store, {b"now"}), timeout=20)
    with pika.BlockingConnection(pika.URLParameters(node.url)) as amqp:
        channel = amqp.channel()
        wait_for(lambda: channel.basic_get("tap", auto_ack=True)[2] == b"now", timeout=20)
        wait_for(lambda: channel.basic_get("second", auto_ack=True)[2] == b"now", timeout=20)


def test_topics_of_the_database_are_known_as_soon_as_a_broker_is_ready(
    mariadb_server: MariaDb, database: str, start_node: StartNode
) -> None:
    engine = MySqlEngine(mariadb_server.url(database, housekeeping="off"))
    engine.create(TopicSpec("jobs"))
    engine.append("jobs", [Entry(b"x")])
    engine.close()
    with store_of(start_node()) as store:
        assert [one.body for one in store.consumer("jobs", token="c").read(1)] == [b"x"]


def test_publishers_get_nacks_while_the_database_is_down_and_continue_afterwards(
    mariadb_server: MariaDb, start_node: StartNode
) -> None:
    node = start_node()
    with store_of(node) as store, pika.BlockingConnection(pika.URLParameters(node.url)) as amqp:
        store.create("jobs", engine="shop")
        channel = amqp.channel()
        channel.confirm_delivery()
        channel.basic_publish("topic.jobs", "k", b"before")
        mariadb_server.kill()
        try:
            with pytest.raises(NackError):
                channel.basic_publish("topic.jobs", "k", b"refused")
            with pytest.raises(EngineUnavailable, match="nothing was done"):
                store.producer("jobs", token="p").append(b"refused")
            with pytest.raises(EngineUnavailable):
                store.consumer("jobs", token="c").read(1)
        finally:
            mariadb_server.start()
        channel.basic_publish("topic.jobs", "k", b"after")
        read = is_read(store, {b"before", b"after"})
        wait_for(read, timeout=20)
        assert [one.body for one in store.consumer("jobs", token="all").read(9)] == [
            b"before", b"after",
        ]  # fmt: skip


@pytest.mark.parametrize("wrong", ["password", "database"])
def test_a_database_that_refuses_stops_the_start_with_one_line(
    mariadb_server: MariaDb, database: str, tmp_path: Path, wrong: str
) -> None:
    url = mariadb_server.url(database if wrong == "password" else "no_such_database")
    if wrong == "password":
        url = url.replace("sEcret", "wr0ng")
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "--data-dir", str(tmp_path / "data"),
         "--amqp-port", "0", "--native-port", "0", "--no-http", "--no-remoting",
         "--engine", f"shop={url}"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode in (1, 2)
    told = ended.stderr
    assert "engine shop: no connection to" in told and "Traceback" not in told
    assert "wr0ng" not in told and PASSWORD not in told


def test_a_dropped_table_is_named_and_other_topics_work(
    mariadb_server: MariaDb, database: str, start_node: StartNode
) -> None:
    node = start_node()
    with store_of(node) as store, pika.BlockingConnection(pika.URLParameters(node.url)) as amqp:
        for name in ("jobs", "other"):
            store.create(name, engine="shop")
        channel = amqp.channel()
        channel.queue_declare("tap", exclusive=True)
        channel.queue_bind("tap", "topic.jobs", "#")
        with mariadb_server.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("RENAME TABLE msg_p_jobs_middle TO kept_aside")
            for call in (
                lambda: store.producer("jobs", token="p").append(b"x"),
                lambda: store.consumer("jobs", token="c").read(1),
                lambda: store.consumer("jobs", token="c", group="g").read(1),
            ):
                with pytest.raises(BrokerError, match="is damaged: a table was dropped"):
                    call()
            store.producer("other", token="p").append(b"fine")
            assert [one.name for one in store.list()] == ["other"]
            cursor.execute("RENAME TABLE kept_aside TO msg_p_jobs_middle")
        store.producer("jobs", token="p").append(b"again")  # its binding is there, too
        wait_for(lambda: channel.basic_get("tap", auto_ack=True)[2] == b"again", timeout=20)


def test_a_damaged_topic_can_be_deleted(mariadb_server: MariaDb, database: str) -> None:
    engine = MySqlEngine(mariadb_server.url(database, housekeeping="off"))
    engine.create(TopicSpec("jobs"))
    with mariadb_server.connect(database) as connection:
        connection.cursor().execute("DROP TABLE msg_p_jobs_low, msg_l_jobs")
    with pytest.raises(StoreError, match="is damaged: a table was dropped"):
        engine.describe("jobs")
    engine.delete("jobs")
    assert engine.uuids() == {}
    engine.close()


def test_a_topic_of_the_log_keeps_its_name_when_another_node_uses_it(
    mariadb_server: MariaDb, database: str, start_node: StartNode
) -> None:
    node = start_node()
    engine = MySqlEngine(mariadb_server.url(database, housekeeping="off"))
    with store_of(node) as store, pika.BlockingConnection(pika.URLParameters(node.url)) as amqp:
        channel = amqp.channel()
        channel.confirm_delivery()
        store.create("jobs")
        engine.create(TopicSpec("jobs"))
        wait_for(lambda: "is hidden by that of engine 'log'" in node.log(), timeout=20)
        channel.basic_publish("topic.jobs", "k", b"ours")
        assert [one.body for one in store.consumer("jobs", token="c").read(9)] == [b"ours"]
        engine.delete("jobs")
        store.create("sign", engine="shop")
        wait_for(lambda: "sign" in [one.name for one in store.list()])
        channel.basic_publish("topic.jobs", "k", b"still there")
        store.delete("jobs")
    engine.close()


def test_the_other_topics_are_listed_while_it_is_away(
    mariadb_server: MariaDb, start_node: StartNode
) -> None:
    node = start_node()
    with store_of(node) as store:
        store.create("jobs", engine="shop")
        store.create("orders")
        store.consumer("orders", token="c", group="g").read(1)
        store.consumer("jobs", token="c", group="g").read(1)
        mariadb_server.kill()
        try:
            assert [(one.name, one.engine) for one in store.list()] == [
                ("jobs", "shop"),
                ("orders", "log"),
            ]
            engine = store.engine
            assert isinstance(engine, RemoteEngine)
            assert [row["topic"] for row in engine._rows("groups", {})] == ["orders"]
            with pytest.raises(EngineUnavailable):
                store.groups("jobs")
        finally:
            mariadb_server.start()
