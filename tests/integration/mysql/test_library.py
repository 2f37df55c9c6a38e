"""`headrace.topics` on MySQL: what a program sees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from headrace import topics
from headrace.errors import ConfigError
from support.mariadb import MariaDb


@pytest.fixture
def store(server: MariaDb, database: str) -> Iterator[topics.Store]:
    with topics.open(server.url(database, housekeeping="off")) as store:
        yield store


def test_the_lines_of_the_interface(store: topics.Store) -> None:
    store.create("orders")
    producer = store.producer("orders", token="appid-1;sid-2")
    producer.append(b"second")
    producer.append(
        b"first", priority="high", ref_key="order-1", source_ip="192.168.0.1", tags="new",
        properties={"shop": "7"},
    )  # fmt: skip
    consumer = store.consumer("orders", token="appid-1;sid-c1", group="g1")
    batch = consumer.read(100)
    assert [one.body for one in batch] == [b"first", b"second"]
    message = batch[0]
    assert (message.id, message.priority, message.ref_key) == (1, "high", "order-1")
    assert (message.token, message.source_ip) == ("appid-1;sid-2", "192.168.0.1")
    assert (message.tags, message.properties, message.attempts) == ("new", {"shop": "7"}, 1)
    assert abs(message.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert batch[1].priority == "middle" and batch[1].ref_key is None
    consumer.commit(batch)
    assert not consumer.read(1)
    assert {name: lag.messages for name, lag in consumer.lag().items()} == {
        "high": 0, "middle": 0, "low": 0,
    }  # fmt: skip
    assert [one.name for one in store.list()] == ["orders"]
    assert store.describe("orders").ids == {"high": (1, 2), "middle": (1, 2), "low": (1, 1)}
    store.delete("orders")
    with pytest.raises(topics.NoSuchTopic):
        store.producer("orders", token="p")


def test_nack_renew_and_the_dead(store: topics.Store) -> None:
    store.create("t")
    store.producer("t", "p").append_many([b"a", "b", topics.NewMessage(b"c", "low")])
    consumer = store.consumer("t", "c", "g", max_attempts=1)
    batch = consumer.read(10)
    consumer.renew(batch)
    consumer.nack(batch[2], delay=5, reason="broken")
    consumer.commit(batch)
    [(message, reason)] = consumer.dead()
    assert (message.text, reason) == ("c", "broken")
    with pytest.raises(topics.BadTopicValue, match="not read by a consumer"):
        consumer.nack(message)


def test_alone_and_in_a_group_a_token_has_two_positions(store: topics.Store) -> None:
    store.create("t")
    store.producer("t", "p").append_many([b"1", b"2", b"3"])
    alone, member = store.consumer("t", "c"), store.consumer("t", "c", "g")
    alone.commit(alone.read(2))
    member.commit(member.read(1))
    assert alone.lag()["middle"].position == 2
    assert member.lag()["middle"].position == 1
    alone.seek(0)
    member.seek({"middle": 2})
    assert [one.text for one in alone.read(9)] == ["1", "2", "3"]
    assert [one.text for one in member.read(9)] == ["3"]
    member.seek(time=datetime(2001, 1, 1, tzinfo=UTC))
    assert len(member.read(9)) == 3


def test_a_read_waits_for_the_first_message(store: topics.Store, server: MariaDb) -> None:
    store.create("t")
    consumer = store.consumer("t", "c")
    assert len(consumer.read(1, wait=0.01)) == 0
    producer = store.producer("t", "p")
    timer = threading.Timer(0.05, producer.append, (b"late",))
    timer.start()
    assert [one.body for one in consumer.read(10, wait=10)] == [b"late"]
    timer.join()


def test_a_read_is_woken_by_what_another_process_appends(
    store: topics.Store, server: MariaDb, database: str
) -> None:
    store.create("t")
    consumer = store.consumer("t", "c", "g")
    with topics.open(server.url(database, housekeeping="off")) as other:
        timer = threading.Timer(0.05, other.producer("t", "p").append, (b"late",))
        timer.start()
        assert [one.body for one in consumer.read(10, wait=10)] == [b"late"]
        timer.join()


def test_iteration_commits_what_was_done(store: topics.Store) -> None:
    store.create("t")
    store.producer("t", "p").append_many([b"%d" % number for number in range(250)])
    got = []
    with store.consumer("t", "c", "g") as consumer:
        for message in consumer:
            got.append(int(message.body))
            if len(got) == 250:
                consumer.close()
    assert got == list(range(250))
    assert store.consumer("t", "c", "g").lag()["middle"].messages == 0


def test_an_iteration_left_by_an_error_commits_only_whole_batches(store: topics.Store) -> None:
    store.create("t")
    store.producer("t", "p").append_many([b"%d" % number for number in range(150)])
    with pytest.raises(ZeroDivisionError), store.consumer("t", "c") as consumer:
        for message in consumer:
            1 / (int(message.body) - 120)
    assert store.consumer("t", "c").lag()["middle"].position == 100


@pytest.mark.parametrize("mistake", [{"priority": "urgent"}, {"source_ip": "nowhere"}])
def test_a_wrong_value_appends_nothing(store: topics.Store, mistake: dict[str, str]) -> None:
    store.create("t")
    with pytest.raises(topics.BadTopicValue):
        store.producer("t", "p").append(b"x", **mistake)
    assert store.describe("t").ids["middle"] == (1, 1)


def test_no_topic_no_token_no_url(store: topics.Store) -> None:
    with pytest.raises(topics.NoSuchTopic):
        store.consumer("nope", "c")
    store.create("t")
    with pytest.raises(topics.BadTopicValue):
        store.producer("t", "")
    with pytest.raises(topics.BadTopicValue):
        store.consumer("t", "c", "")
    for url in ("", "redis://x", "mysql://x"):
        with pytest.raises(ConfigError):
            topics.open(url)
    with pytest.raises(topics.EngineUnavailable, match="nothing was done"):
        topics.open("headrace://guest:guest@127.0.0.1:1/")
