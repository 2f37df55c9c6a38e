"""foreachBatch into messages: what Spark does not let a sink in Python take, each batch once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import topics
from headrace.spark import batches_into
from headrace.spark.errors import BadOption
from headrace.testing import RunningBroker, run_broker


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker, topics.open(url_of(broker)) as store:
        for name in ("in", "counts", "digits"):
            store.create(name)
        yield broker


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


def send(broker: RunningBroker, numbers: range) -> None:
    with topics.open(url_of(broker)) as store:
        new = [topics.NewMessage(b"%d" % number) for number in numbers]
        store.producer("in", token="t").append_many(new)


def read(broker: RunningBroker, topic: str) -> list[bytes]:
    with topics.open(url_of(broker)) as store:
        return [one.body for one in store.consumer(topic, token="t").read(1000)]


def source(spark: Any, broker: RunningBroker) -> Any:  # noqa: ANN401 - data frames
    stream = spark.readStream.format("headrace").option("url", url_of(broker))
    return stream.option("topic", "in").load()


def digits(spark: Any, broker: RunningBroker) -> Any:  # noqa: ANN401
    ends = source(spark, broker).selectExpr("right(cast(body AS string), 1) AS digit")
    return ends.groupBy("digit").count().selectExpr("to_json(struct(*)) AS body", "digit AS key")


def run(rows: Any, checkpoint: Path, write: Any) -> None:  # noqa: ANN401
    writer = rows.writeStream.outputMode("update").foreachBatch(write)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def test_update_mode_writes_the_groups_that_changed(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
) -> None:
    write = batches_into(url=url_of(broker), topic="counts")
    send(broker, range(20))
    run(digits(spark, broker), tmp_path, write)
    send(broker, range(3))
    run(digits(spark, broker), tmp_path, write)

    found = [(row["digit"], row["count"]) for row in map(json.loads, read(broker, "counts"))]
    assert sorted(found[:10]) == [(str(digit), 2) for digit in range(10)]
    assert sorted(found[10:]) == [(str(digit), 3) for digit in range(3)]


def test_a_batch_goes_to_each_destination_once_however_often_it_is_repeated(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
) -> None:
    places = [batches_into(url=url_of(broker), topic=name) for name in ("counts", "digits")]

    def write(frame: Any, batch: int) -> None:  # noqa: ANN401
        for place in (*places, *places):
            place(frame, batch)

    send(broker, range(10))
    run(digits(spark, broker), tmp_path, write)

    assert [len(read(broker, name)) for name in ("counts", "digits")] == [10, 10]


def test_rows_that_are_no_messages_end_the_query_with_the_reason(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
) -> None:
    rows = source(spark, broker).groupBy("key").count()
    send(broker, range(1))

    with pytest.raises(Exception, match="column 'count' cannot be written"):
        run(rows, tmp_path, batches_into(url=url_of(broker), topic="counts"))
    assert read(broker, "counts") == []


def test_options_are_refused_before_a_batch_comes() -> None:
    with pytest.raises(BadOption, match="give one of the options 'topic' and 'exchange'"):
        batches_into()
