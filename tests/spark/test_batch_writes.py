"""Tables as messages: all of a table or nothing, and a key makes it once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import topics
from headrace.client import Channel, ConnectionFactory
from headrace.testing import RunningBroker, run_broker


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[Channel]:
    with ConnectionFactory("127.0.0.1", broker.native_port or 0).new_connection() as connection:
        yield connection.create_channel()


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


def write(rows: Any, broker: RunningBroker, mode: str = "append", **options: str) -> None:  # noqa: ANN401
    writer = rows.write.format("headrace").option("url", url_of(broker)).mode(mode)
    writer.options(**options).save()


def drain(channel: Channel, queue: str) -> list[Any]:
    found = []
    while (message := channel.basic_get(queue, auto_ack=True)) is not None:
        found.append(message)
    return found


def test_the_same_key_again_writes_nothing(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    channel: Channel,
) -> None:
    channel.queue_declare("invoices", durable=True)
    rows = spark.range(50).selectExpr(
        "cast(id AS string) AS body",
        "'invoices' AS routing_key",
        "concat('m', id) AS message_id",
        "CASE WHEN id = 0 THEN 'high' END AS priority",
        "map('content_type', 'text/plain', 'n', cast(id AS string)) AS properties",
    )
    for parts in (3, 2):  # repeated with another number of tasks
        write(rows.repartition(parts), broker, exchange="", idempotencyKey="run-17")
    found = {int(one.body): one.properties for one in drain(channel, "invoices")}
    assert sorted(found) == list(range(50))
    assert (found[7].message_id, found[7].content_type) == ("m7", "text/plain")
    assert found[7].headers == {"n": "7"}
    assert (found[0].priority, found[7].priority) == (8, None)
    write(rows.limit(3), broker, exchange="", idempotencyKey="run-18")
    write(rows.limit(3), broker, exchange="")  # without a key each time counts
    assert len(drain(channel, "invoices")) == 6


def test_a_task_that_fails_leaves_nothing_behind(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
) -> None:
    with topics.open(url_of(broker)) as store:
        store.create("half")
    rows = spark.range(0, 100, 1, 4)
    broken = rows.selectExpr(
        "CASE WHEN id = 99 THEN raise_error('no') ELSE cast(id AS string) END AS body"
    )
    with pytest.raises(Exception, match="no"):
        write(broken, broker, topic="half")
    write(rows.selectExpr("cast(id AS string) AS body", "'k' AS key"), broker, topic="half")
    with topics.open(url_of(broker)) as store:
        assert len(store.consumer("half", token="t").read(1000)) == 100


@pytest.mark.parametrize(
    ("columns", "options", "mode", "text"),
    [
        (["'x' AS body"], {}, "append", "give one of the options 'topic' and 'exchange'"),
        (["'x' AS body"], {"topic": "t", "colour": "red"}, "append", "unknown option 'colour'"),
        (["'x' AS text"], {"topic": "t"}, "append", "column 'text' cannot be written"),
        (["'x' AS key"], {"topic": "t"}, "append", "column 'body' is missing"),
        (["id"], {"topic": "t"}, "append", "selectExpr('to_json(struct(*)) AS body') makes one"),
        (
            ["nullif(id, 1) || '' AS body"],
            {"topic": "t"},
            "append",
            "'body' is null in a row",
        ),
        (["'x' AS body"], {"topics": "t"}, "append", "'topics', did you mean 'topic'?"),
        (["1 AS body"], {"topic": "t"}, "append", "column 'body' must be binary or string"),
        (["'x' AS body", "'r' AS routing_key"], {"topic": "t"}, "append", "no routing keys"),
        (["'x' AS body", "'urgent' AS priority"], {"topic": "t"}, "append", "low, middle or high"),
        (["'x' AS body"], {"topic": "t"}, "overwrite", "messages can only be appended"),
        (["'x' AS body"], {"topic": "nowhere"}, "append", "no topic 'nowhere'"),
    ],
)
def test_sinks_that_cannot_be_written_are_reported_in_one_line(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    columns: list[str],
    options: dict[str, str],
    mode: str,
    text: str,
) -> None:
    from headrace.spark.errors import reason_of

    with topics.open(url_of(broker)) as store:
        store.create("t")
    with pytest.raises(Exception, match="headrace") as caught:
        write(spark.range(2).selectExpr(*columns), broker, mode, **options)
    reason = reason_of(caught.value)
    assert text in reason
    assert "\n" not in reason
