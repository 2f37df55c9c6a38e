"""Queues and topics as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        for n in range(60):
            properties = pika.BasicProperties(
                delivery_mode=2, message_id=f"m{n}", priority=n % 10, headers={"n": n}
            )
            channel.basic_publish("", "orders", b"%d" % n, properties)
        connection.close()
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="events", queues=2)
            lanes = ("low", "middle", "high")
            rows = [
                {
                    "priority": lanes[n % 3],
                    "key": f"k{n % 5}",
                    "tags": "AB"[n % 2],
                    "properties": {"price": str(n)},
                    "body": b"e%d" % n,
                }
                for n in range(90)
            ]
            bulk.call(Op.APPEND, topic="events", token="appid-1", batch=rows)
        yield broker


def reading(spark: Any, broker: RunningBroker, **options: object) -> Any:  # noqa: ANN401
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    reader = spark.read.format("headrace").option("url", url)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def bodies(rows: Any) -> set[bytes]:  # noqa: ANN401
    return {bytes(row.body) for row in rows.select("body").collect()}


def test_a_queue_is_a_table(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    rows = reading(spark, broker, queue="orders", rowsPerTask=25)
    found = rows.orderBy("offset").collect()
    assert [row.offset for row in found] == list(range(60))
    assert found[7].message_id == "m7"
    assert found[7].priority == "high"
    assert found[7].properties["n"] == "7"
    assert rows.rdd.getNumPartitions() == 3


def test_a_topic_has_a_partition_per_lane_and_queue(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    rows = reading(spark, broker, topic="events", columns="partition,priority,key,properties,body")
    found = rows.collect()
    assert len(found) == 90
    assert {row.priority: {r.partition for r in found if r.priority == row.priority}
            for row in found} == {"middle": {0, 1}, "high": {2, 3}, "low": {4, 5}}  # fmt: skip
    assert {row.properties["token"] for row in found} == {"appid-1"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"orders": {"0": 50}}'}, range(50, 60)),
        ({"startingOffsets": '{"orders": {"0": 10}}', "endingOffsets": '{"orders": {"0": 20}}'},
         range(10, 20)),
        ({"startingOffsets": "latest"}, range(0)),
        ({"endingOffsets": "earliest"}, range(0)),
        ({"startingTimestamp": "2000-01-01T00:00:00"}, range(60)),
        ({"startingTimestamp": "2100-01-01T00:00:00"}, range(0)),
    ],
)  # fmt: skip
def test_where_reading_begins_and_ends(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    options: dict[str, str],
    expected: range,
) -> None:
    rows = reading(spark, broker, queue="orders", columns="body", **options)
    assert bodies(rows) == {b"%d" % n for n in expected}


def test_selectors_and_tags_choose_in_the_tasks(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    tagged = reading(spark, broker, topic="events", tags="B", columns="body")
    assert bodies(tagged) == {b"e%d" % n for n in range(1, 90, 2)}
    dear = reading(spark, broker, topic="events", selector="price >= 80 AND TAGS = 'A'")
    assert bodies(dear) == {b"e%d" % n for n in range(80, 90, 2)}


def test_filters_of_the_query_narrow_what_is_read(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    rows = reading(spark, broker, queue="orders", pushFilters="true", rowsPerTask=10)
    chosen = rows.where("offset >= 42 AND offset < 45 AND partition = 0")
    assert chosen.rdd.getNumPartitions() == 1
    assert bodies(chosen) == {b"42", b"43", b"44"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "nothing"}, "no queue 'nothing'"),
        ({"topic": "nothing"}, "no topic 'nothing'"),
        ({"queue": "orders", "colour": "red"}, "unknown option 'colour'"),
        ({"queue": "orders", "topic": "events"}, "give one of the options"),
        ({}, "give one of the options"),
        ({"queue": "orders", "columns": "body,shape"}, "unknown column 'shape'"),
        ({"queue": "orders", "startingOffsets": "soon"}, "startingOffsets: expected earliest"),
        ({"queue": "orders", "url": "headrace://guest:wrong@127.0.0.1:{port}/"}, "login_refused"),
        ({"queue": "orders", "url": "headrace://127.0.0.1:1/"}, "no broker answers"),
        ({"topic": "events", "selector": "price >"}, "selector:"),
        ({"topic": "events", "startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"queue": "orders", "startingOffsets": '{"orders": {"1": 0}}'},
         "'orders' has no partition 1; there are 0"),
        ({"queue": "orders", "url": "{http}"}, "Is that the port of the native protocol (9090)?"),
    ],
)  # fmt: skip
def test_sources_that_cannot_be_read_are_reported_in_one_line(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    options: dict[str, str],
    text: str,
) -> None:
    http = str(broker.http_url).replace("http://", "headrace://")
    options = {
        name: value.replace("{port}", str(broker.native_port)).replace("{http}", http)
        for name, value in options.items()
    }
    with pytest.raises(Exception, match="headrace") as caught:
        reading(spark, broker, **options).collect()
    assert text in str(caught.value)
