"""Topics in MySQL as tables and streams, without a broker."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import topics
from headrace.testing import run_broker
from support.mariadb import MariaDb, prepared

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = prepared(tmp_path_factory.mktemp("db"))
    yield server
    server.stop()


@pytest.fixture
def url(server: MariaDb) -> Iterator[str]:
    with server.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE spark")
    yield server.url("spark")
    with server.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE spark")


def fill(store: topics.Store, start: int, count: int) -> None:
    producer = store.producer("source", token="appid-1")
    producer.append_many(
        [
            topics.NewMessage(
                b"%d" % n,
                priority=("low", "middle", "high")[n % 3],
                ref_key=f"k{n}",
                tags="AB"[n % 2],
                properties={"n": str(n)} if n % 5 == 0 else None,
            )
            for n in range(start, start + count)
        ]
    )


def test_a_stream_from_topic_to_topic_has_every_message_once(
    spark: Any,  # noqa: ANN401
    url: str,
    tmp_path: Path,
) -> None:
    with topics.open(url) as store:
        store.create("source")
        store.create("sink")
        fill(store, 0, 300)
        rows = spark.read.format("headrace").option("url", url).option("topic", "source").load()
        found = {bytes(row.body): row for row in rows.collect()}
        assert len(found) == 300
        own = {"token": "appid-1", "source_ip": "127.0.0.1"}
        assert found[b"10"].properties == {**own, "n": "10"}
        assert (found[b"11"].key, found[b"11"].tags, found[b"11"].priority) == ("k11", "B", "high")

        def run() -> None:
            stream = (
                spark.readStream.format("headrace")
                .option("url", url)
                .option("topic", "source")
                .option("maxRowsPerTrigger", "120")
                .option("group", "copy")
                .load()
            )
            query = (
                stream.selectExpr("body", "key", "priority")
                .writeStream.format("headrace")
                .option("url", url)
                .option("topic", "sink")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        run()
        fill(store, 300, 100)
        run()
        consumer = store.consumer("sink", token="c")
        received: Counter[bytes] = Counter()
        # Ids that a statement took and did not use are fenced first.
        while batch := consumer.read(1000, wait=5.0):
            received.update(one.body for one in batch)
            consumer.commit(batch)
        assert received == Counter(b"%d" % n for n in range(400))
        assert "spark.copy" in [one.group for one in store.groups("source")]


def insert(server: MariaDb, count: int, rng: random.Random) -> set[bytes]:
    """Inserts of another program, a fifth of them rolled back; the bodies that were committed."""
    committed = set()
    rolled_back = set(rng.sample(range(count), count // 5))
    with server.connect("spark") as connection, connection.cursor() as cursor:
        for n in range(count):
            body = b"%016x" % rng.getrandbits(64)
            table = f"msg_p_source_{rng.choice(('low', 'middle', 'high'))}"
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO {table} (body,token) VALUES (%s,'other')", (body,))
            cursor.execute("ROLLBACK" if n in rolled_back else "COMMIT")
            if n not in rolled_back:
                committed.add(body)
    return committed


def bodies(spark: Any, url: str, **options: str) -> set[bytes]:  # noqa: ANN401
    rows = spark.read.format("headrace").option("url", url).option("topic", "source")
    return {bytes(row.body) for row in rows.options(**options).load().select("body").collect()}


def test_each_finite_read_sees_exactly_the_committed_rows(
    spark: Any,  # noqa: ANN401
    server: MariaDb,
    url: str,
    tmp_path: Path,
) -> None:
    """No other program has the database open that could close the gaps."""
    with topics.open(url) as store:
        store.create("source")
    rng, committed = random.Random(17), set()
    out = str(tmp_path / "out")
    for _ in range(4):
        committed |= insert(server, 250, rng)
        assert bodies(spark, url) == committed
        stream = spark.readStream.format("headrace").option("url", url).option("topic", "source")
        stream = stream.option("group", "once").load().select("body")
        writer = stream.writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        seen = [bytes(row.body) for row in spark.read.parquet(out).collect()]
        assert len(seen) == len(committed)
        assert set(seen) == committed


def test_a_finite_read_fails_before_a_gap_that_stays(
    spark: Any,  # noqa: ANN401
    server: MariaDb,
    url: str,
) -> None:
    with topics.open(url) as store:
        store.create("source")
        store.producer("source", token="p").append(b"before")
        with server.connect("spark") as slow, slow.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO msg_p_source_middle (body,token) VALUES ('slow','p')")
            store.producer("source", token="p").append(b"behind")
            with pytest.raises(Exception, match="ids 2 to 2 are missing"):
                bodies(spark, url)
            assert bodies(spark, url, failOnDataLoss="false") == {b"before"}
            cursor.execute("COMMIT")
        assert bodies(spark, url) == {b"before", b"slow", b"behind"}


def test_topics_of_a_brokers_engine_are_read_archived_replayed_and_reported(
    spark: Any,  # noqa: ANN401
    server: MariaDb,
    url: str,
    tmp_path: Path,
) -> None:
    from headrace.spark.archive.archiver import Archiver
    from headrace.spark.archive.sql_tables import offer, query
    from headrace.spark.replay.replay import Replay
    from headrace.spark.replay.request import ReplayRequest
    from headrace.spark.reports.report import make

    since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    with run_broker(engine=(("db", url),)) as broker:
        native = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with topics.open(native) as store:
            store.create("source", engine="db")
            store.create("again")
        committed = insert(server, 100, random.Random(3))
        assert bodies(spark, native) == committed
        lake, stop = tmp_path / "lake", threading.Event()
        job = Archiver(spark, lake, native, rows_per_round=50)
        assert job.run(once=True, stop=stop) == len(committed)
        committed |= insert(server, 20, random.Random(4))
        assert job.run(once=True, stop=stop) == 16
        assert job.run(once=True, stop=stop) == 0
        names = offer(spark, lake)
        rows = query(spark, "SELECT body FROM source WHERE kind = 'topic'", names).collect()
        assert {bytes(row.body) for row in rows} == committed
        request = ReplayRequest((), ("source",), since, until, None, "topic.again", "")
        assert Replay(spark, request, native).send(1e6, lambda *_: None) == (len(committed), 0)
        tables = {one.title: one for one in make(spark, native, since, until).tables}
        assert {row[1]: row[2] for row in tables["Throughput"].rows}["source"] == len(committed)
        with topics.open(native) as store:
            replayed = store.consumer("again", token="c").read(1000)
            assert {one.body for one in replayed} == committed
        job.release()
