"""A stream whose messages or whose past are gone says so; it never skips or reads again quietly."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.store.tools.backup import backup, restore
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op
from support.mariadb import prepared


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


@pytest.fixture
def bulk(broker: RunningBroker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=broker.native_port)) as connection:
        yield connection


class Stream:
    """Runs over what is there, into a Parquet table; its checkpoint can be taken away."""

    def __init__(self, spark: Any, place: Path, url: str, **options: str) -> None:  # noqa: ANN401
        self.spark = spark
        self.place = place
        self.options = {"url": url, **options}

    def run(self) -> None:
        rows = self.spark.readStream.format("headrace").options(**self.options).load()
        query = (
            rows.select("body")
            .writeStream.format("parquet")
            .option("path", str(self.place / "table"))
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def refusal(self) -> str:
        from headrace.spark.errors import reason_of

        with pytest.raises(Exception, match="headrace") as caught:
            self.run()
        reason = reason_of(caught.value)
        assert "\n" not in reason
        assert "Traceback" not in reason
        return reason

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.place / "checkpoint")

    @property
    def bodies(self) -> list[bytes]:
        table = self.spark.read.schema("body BINARY").parquet(str(self.place / "table"))
        return sorted(bytes(row.body) for row in table.collect())


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


def publish(bulk: BulkConnection, queue: str, *bodies: bytes) -> None:
    bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
    bulk.call(
        Op.PUBLISH,
        batch=[
            {"exchange": "", "key": queue, "properties": {"delivery_mode": 2}, "body": body}
            for body in bodies
        ],
    )


def take(bulk: BulkConnection, queue: str) -> None:
    while bulk.call(Op.GET, queue=queue, auto_ack=True)["message"] is not None:
        pass


def append(bulk: BulkConnection, topic: str, *bodies: bytes) -> None:
    bulk.call(Op.APPEND, topic=topic, batch=[{"priority": "middle", "body": b} for b in bodies])


def test_a_queue_made_again_between_batches(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    bulk: BulkConnection,
    tmp_path: Path,
) -> None:
    publish(bulk, "again", b"old")
    stream = Stream(spark, tmp_path, url_of(broker), queue="again", group="again")
    stream.run()
    bulk.call(Op.QUEUE_DELETE, name="again")
    publish(bulk, "again", b"new", b"newer")
    assert "queue 'again' was deleted and created again since the last batch" in stream.refusal()
    assert stream.bodies == [b"old"]
    stream.lose_checkpoint()  # as the message says: it is another queue, so nothing is lost
    shutil.rmtree(tmp_path / "table")
    stream.run()
    assert stream.bodies == [b"new", b"newer"]
    bulk.call(Op.QUEUE_DELETE, name="again")
    assert "no queue 'again'" in stream.refusal()


@pytest.mark.spark
def test_a_topic_made_again_between_batches(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    bulk: BulkConnection,
    tmp_path: Path,
) -> None:
    bulk.call(Op.TOPIC_DECLARE, name="again", queues=1)
    append(bulk, "again", b"old")
    stream = Stream(spark, tmp_path, url_of(broker), topic="again", failOnDataLoss="false")
    stream.run()
    bulk.call(Op.TOPIC_DELETE, name="again")
    bulk.call(Op.TOPIC_DECLARE, name="again", queues=1)
    append(bulk, "again", b"new", b"newer")
    assert "topic 'again' was deleted and created again since the last batch" in stream.refusal()
    assert stream.bodies == [b"old"]


@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=pytest.mark.spark)])
def test_a_lost_checkpoint(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    bulk: BulkConnection,
    tmp_path: Path,
    kind: str,
) -> None:
    name = f"forgetful_{kind}"
    if kind == "topic":
        bulk.call(Op.TOPIC_DECLARE, name=name, queues=2)
    put = append if kind == "topic" else publish
    put(bulk, name, b"1", b"2")
    stream = Stream(spark, tmp_path, url_of(broker), group=f"g-{kind}", **{kind: name})
    stream.run()
    stream.run()  # nothing new; the checkpoint is there
    put(bulk, name, b"3")
    stream.lose_checkpoint()
    for _ in range(2):  # also when it is tried again
        reason = stream.refusal()
        assert f"messages are pinned for 'g-{kind}' by an earlier run" in reason
        assert f"headrace pin delete g-{kind}" in reason
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
    assert stream.bodies == [b"1", b"2"]
    bulk.unpin(f"g-{kind}")
    shutil.rmtree(tmp_path / "table")
    stream.run()
    assert stream.bodies == [b"1", b"2", b"3"]


@pytest.mark.spark
def test_messages_removed_by_retention(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    bulk: BulkConnection,
    tmp_path: Path,
) -> None:
    publish(bulk, "short", b"1")
    stream = Stream(spark, tmp_path, url_of(broker), queue="short", group="short")
    stream.run()
    bulk.unpin("short")  # as if it had been away for too long
    publish(bulk, "short", b"2", b"3")
    take(bulk, "short")
    wait_for(lambda: bulk.sources([{"queue": "short"}])[0].ranges[0].complete == 3, timeout=15)
    publish(bulk, "short", b"4")
    assert "'short' partition 0: offsets 1 to 2 are gone" in stream.refusal()
    assert stream.bodies == [b"1"]
    stream.options["failOnDataLoss"] = "false"
    stream.run()
    assert stream.bodies == [b"1", b"4"]


@pytest.mark.spark
def test_a_pin_over_its_limit(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    bulk: BulkConnection,
    tmp_path: Path,
) -> None:
    publish(bulk, "large", b"1")
    stream = Stream(spark, tmp_path, url_of(broker), queue="large", group="small",
                    pinBytes="10000")  # fmt: skip
    stream.run()
    for _ in range(4):
        publish(bulk, "large", bytes(9000))
        take(bulk, "large")
    wait_for(lambda: [pin.lost for pin in bulk.pins() if pin.query == "small"] == [True], 15)
    reason = stream.refusal()
    assert "the pin of 'small' on queue 'large' is lost: it kept more than the 10000" in reason
    assert stream.bodies == [b"1"]
    publish(bulk, "large", b"2")
    stream.options["failOnDataLoss"] = "false"
    stream.run()
    assert stream.bodies == [b"1", b"2"]
    assert [pin.lost for pin in bulk.pins() if pin.query == "small"] == [False]


@pytest.mark.spark
def test_a_topic_in_mysql(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    server = prepared(tmp_path)
    try:
        server.create_database("losses")
        url = server.url("losses")
        stream = Stream(spark, tmp_path, url, topic="again", group="mine")
        with topics.open(url) as store:
            store.create("again")
            store.producer("again", token="p").append(b"old")
            stream.run()
            stream.lose_checkpoint()
            assert "messages are pinned for 'mine' by an earlier run" in stream.refusal()
            shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
            shutil.rmtree(tmp_path / "table")
            store.delete("again")
            store.create("again")
            producer = store.producer("again", token="p")
            producer.append(b"new")
            stream.run()  # another topic: nothing is lost
            assert stream.bodies == [b"new"]
            store.delete("again")
            store.create("again")
            store.producer("again", token="p").append(b"newest")
            reason = stream.refusal()
            assert "topic 'again' was deleted and created again since the last batch" in reason
    finally:
        server.stop()


def test_a_checkpoint_newer_than_the_restored_backup(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    data, copy, again = tmp_path / "data", tmp_path / "copy", tmp_path / "again"
    with run_broker(data_dir=data) as broker, bulk_to(broker) as bulk:
        bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
        append(bulk, "t", b"a", b"b")
        backup(data, copy)
        append(bulk, "t", b"c", b"d", b"e")
        Stream(spark, tmp_path, url_of(broker), topic="t").run()
    restore(copy, again)

    with run_broker(data_dir=again) as broker, bulk_to(broker) as bulk:
        stream = Stream(spark, tmp_path, url_of(broker), topic="t")
        assert "messages up to offset 4 were read" in stream.refusal()
        append(bulk, "t", *(b"new %d" % number for number in range(6)))  # offsets 2 to 7
        assert "messages up to offset 4 were read" in stream.refusal()
        assert stream.bodies == [b"a", b"b", b"c", b"d", b"e"]
        stream.options["failOnDataLoss"] = "false"
        stream.run()
        new = [b"new %d" % number for number in range(6)]
        assert stream.bodies == [b"a", b"b", b"c", b"d", b"e", *new]
        del stream.options["failOnDataLoss"]
        append(bulk, "t", b"newer")
        stream.run()  # the checkpoint is one of this epoch now
        assert stream.bodies[-1] == b"newer"


def bulk_to(broker: RunningBroker) -> BulkConnection:
    return BulkConnection(Settings(port=broker.native_port))
