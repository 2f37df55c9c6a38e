"""The archive has every message once, whatever happens; SQL and replay work on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headrace.topics
from headrace.client import Channel, ConnectionFactory
from headrace.testing import RunningBroker, run_broker

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[Channel]:
    assert broker.native_port is not None
    with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
        yield connection.create_channel()


def publish(channel: Channel, queue: str, start: int, count: int) -> None:
    channel.queue_declare(queue, durable=True)
    channel.publish_batch(
        ("", queue, {"delivery_mode": 2, "headers": {"n": n}}, b"%d" % n)
        for n in range(start, start + count)
    )


def drain(channel: Channel, queue: str) -> list[Any]:
    found = []
    while (message := channel.basic_get(queue, auto_ack=True)) is not None:
        found.append(message)
    return found


def archiver(spark: Any, lake: Path, broker: RunningBroker) -> Any:  # noqa: ANN401 - pyspark's own
    from headrace.spark.archive.archiver import Archiver

    return Archiver(spark, lake, url_of(broker), rows_per_round=150)


def archived(lake: Path) -> list[tuple[str, str, int]]:
    from deltalake import DeltaTable

    table = DeltaTable(str(lake / "messages")).to_pyarrow_table()
    columns = (table[name].to_pylist() for name in ("source", "source_uuid", "offset", "body"))
    return [(source, uuid, int(body)) for source, uuid, _, body in zip(*columns, strict=True)]


def test_every_message_is_archived_once_whatever_happens(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    channel: Channel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.spark.archive import archiver as run

    lake, stop = tmp_path / "lake", threading.Event()
    job = archiver(spark, lake, broker)
    publish(channel, "a/b %", 0, 200)
    assert job.run(once=True, stop=stop) == 200
    publish(channel, "a/b %", 200, 100)
    assert len(drain(channel, "a/b %")) == 300  # acknowledged before it is archived: the pin holds

    def crash(*args: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(run, "commit", crash)
        with pytest.raises(RuntimeError, match="killed"):
            job.run(once=True, stop=stop)
    files = len(list((lake / "messages").rglob("*.parquet")))
    broker.restart()
    assert job.run(once=True, stop=stop) == 100
    assert len(list((lake / "messages").rglob("*.parquet"))) > files  # the old ones count nowhere
    assert sorted(n for _, _, n in archived(lake)) == list(range(300))

    with ConnectionFactory("127.0.0.1", broker.native_port or 0).new_connection() as connection:
        again = connection.create_channel()
        again.queue_delete("a/b %")
        publish(again, "a/b %", 1000, 5)  # another queue of the same name
        with headrace.topics.open(url_of(broker)) as store:
            store.create("events")
            store.producer("events", token="appid-1").append(b"7", priority="high")
        assert job.run(once=True, stop=stop) == 6
        assert job.run(once=True, stop=stop) == 0
        _check_queries(spark, lake)
        _check_replay(spark, again, broker, lake)


def _check_queries(spark: Any, lake: Path) -> None:  # noqa: ANN401
    import duckdb
    from deltalake import DeltaTable

    from headrace.spark.archive.sql_tables import offer, query
    from headrace.spark.errors import BadOption

    names = offer(spark, lake)
    assert names == ["`a/b %`", "events", "messages"]
    found = query(spark, "SELECT count(*), sum(text), max(vhost) FROM `a/b %`", names).collect()
    total = sum(range(300)) + sum(range(1000, 1005))
    assert [tuple(row) for row in found] == [(305, total, "/")]
    row = query(spark, "SELECT kind, priority FROM events", names).first()
    assert tuple(row) == ("topic", "high")
    with pytest.raises(BadOption, match="unknown table `order`; expected one of `a/b %`, events"):
        query(spark, "SELECT * FROM order", names)
    with pytest.raises(BadOption, match=r"^Syntax error at or near 'SELEC'"):
        query(spark, "SELEC 1", names)
    with pytest.raises(BadOption, match="price"):
        query(spark, "SELECT price FROM events", names)
    files = DeltaTable(str(lake / "messages")).file_uris()
    sql = "SELECT source, count(*) FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL"
    assert sorted(duckdb.execute(sql, [files]).fetchall()) == [("a/b %", 305), ("events", 1)]


def _check_replay(
    spark: Any,  # noqa: ANN401
    channel: Channel,
    broker: RunningBroker,
    lake: Path,
) -> None:
    from headrace.spark.errors import BadOption
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest

    channel.queue_declare("again", durable=True)
    until = datetime.now(UTC) + timedelta(seconds=1)
    request = ReplayRequest(
        ("a/b %",), (), LONG_AGO, until, "int(text) BETWEEN 95 AND 204", "", "again"
    )
    job = Replay(spark, request, url_of(broker), lake)
    preview = job.preview()
    assert (preview.count, preview.by_source) == (110, [("queue", "a/b %", 110)])
    assert drain(channel, "again") == []  # a dry run sends nothing

    class Interrupted(Exception):
        pass

    def stop_at_once(sent: int, before: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        job.send(1e6, stop_at_once)
    assert job.send(1e6, lambda sent, before: None) == (105, 5)  # offsets 0-99 are the first block
    assert job.send(1e6, lambda sent, before: None) == (0, 110)
    found = drain(channel, "again")
    assert [int(one.body) for one in found] == list(range(95, 205))
    headers = found[0].properties.headers
    assert headers["x-replay-of"] == "a/b %/0/95"
    assert headers["n"] == "95"
    with pytest.raises(BadOption, match=r"--where: .*nothing.* cannot be resolved"):
        wrong = ReplayRequest((), (), LONG_AGO, until, "nothing = 1", "")
        Replay(spark, wrong, url_of(broker), lake).preview()


def test_retained_messages_of_a_topic_are_replayed_without_an_archive(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    channel: Channel,
) -> None:
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest

    with headrace.topics.open(url_of(broker)) as store:
        store.create("events")
        producer = store.producer("events", token="appid-1")
        for n in range(20):
            producer.append(b"%d" % n, ref_key=f"k{n}")
    channel.queue_declare("again", durable=True)
    until = datetime.now(UTC) + timedelta(seconds=1)
    request = ReplayRequest((), ("events",), LONG_AGO, until, "key = 'k7'", "", "again")
    job = Replay(spark, request, url_of(broker))
    assert job.send(1000.0, lambda sent, before: None) == (1, 0)
    assert job.send(1000.0, lambda sent, before: None) == (0, 1)
    assert [
        (one.body, one.properties.headers["x-replay-of"]) for one in drain(channel, "again")
    ] == [(b"7", "events/0/7")]


@pytest.mark.spark  # in a session with 1 GiB that is not used up by others
def test_messages_too_large_for_one_request_are_replayed(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    channel: Channel,
) -> None:
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest

    with headrace.topics.open(url_of(broker)) as store:
        store.create("films")
        producer = store.producer("films", token="appid-1")
        for n in range(15):
            producer.append(b"%02d" % n * (5 << 19))  # 75 MiB, and all in one block
    channel.queue_declare("again", durable=True)
    until = datetime.now(UTC) + timedelta(seconds=1)
    request = ReplayRequest((), ("films",), LONG_AGO, until, None, "", "again")
    job = Replay(spark, request, url_of(broker))
    assert job.send(1000.0, lambda sent, before: None) == (15, 0)
    assert [int(one.body[:2]) for one in drain(channel, "again")] == list(range(15))


def test_two_archivers_at_once_are_refused(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
) -> None:
    from headrace.spark.archive.archiver import _alone
    from headrace.spark.errors import LakeError

    with (
        _alone(tmp_path),
        pytest.raises(LakeError, match="is in use by another `headrace archive`"),
    ):
        archiver(spark, tmp_path, broker).run(once=True, stop=threading.Event())
