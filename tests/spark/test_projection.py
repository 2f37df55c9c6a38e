"""Queries that use some columns see the same values as those that use all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack_into, unpack_from
from typing import Any

import pika
import pytest

from headrace.bulk.client import BulkConnection
from headrace.bulk.read_plan import ReadPlan
from headrace.client.settings import Settings
from headrace.spark.errors import reason_of
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op
from headrace.wire.record_layout import HEAD_SIZE_AT
from support.spark_lab import sessions

TEXTS = ("", "a", "\u043a\u043b\u044e\u0447", "x" * 120)
HEADS = ["offset", "timestamp", "source", "partition", "exchange", "routing_key"]
CHOICES = [
    HEADS,
    ["offset"],
    ["offset", "key"],
    ["offset", "born"],
    ["offset", "tags", "timestamp"],
    ["offset", "message_id", "priority"],
    ["offset", "properties", "source"],
    ["offset", "body"],
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Records of one message, of many, of many megabytes; shared ones, and ones of transactions."""
    with run_broker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for queue in ("q", "other"):
                bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
                bulk.call(Op.BIND, source="amq.fanout", queue=queue, key="")
            for count, size in ((1, 50), (300, 1000), (1, 200_000), (2, 3_000_000), (900, 100)):
                _fill(bulk, count, size)
        _transact(broker)
        yield broker


def _fill(bulk: BulkConnection, count: int, size: int) -> None:
    rows: list[dict[str, object]] = []
    for n in range(count):
        text = TEXTS[n % len(TEXTS)]
        rows.append({"key": text, "body": b"%d" % n * (size // (1 + n % 3) // len(str(n)))})
        if n % 5:
            rows[-1] |= {"tags": text, "message_id": f"id {n}", "properties": {"p": text}}
    bulk.call(Op.APPEND, topic="t", token="producer", batch=rows)
    for exchange, key in (("", "q"), ("amq.fanout", "")):
        batch = [
            {
                "exchange": exchange,
                "key": key,
                "body": row["body"],
                "properties": {
                    "delivery_mode": 2,
                    "message_id": f"id {n}",
                    **({"priority": n % 10, "timestamp": 1_700_000_000 + n} if n % 3 else {}),
                    **({"headers": {"h": row["key"]}} if n % 4 else {}),
                },
            }
            for n, row in enumerate(rows)
        ]
        bulk.call(Op.PUBLISH, batch=batch)


def _transact(broker: RunningBroker) -> None:
    """Records in atomic groups; then some messages are acknowledged."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.tx_select()
    for n in range(40):
        for queue in ("q", "other"):
            properties = pika.BasicProperties(delivery_mode=2, message_id=f"in a group {n}")
            channel.basic_publish("", queue, b"%d" % n * 2000, properties)
        if n % 20 == 19:
            channel.tx_commit()
    plain = connection.channel()
    for n in range(150):
        method, _, _ = plain.basic_get("q")
        if n % 2:
            plain.basic_ack(method.delivery_tag)
    connection.close()


@pytest.fixture(params=["files", "network"])
def byte_path(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:  # noqa: ANN401
    """How the jar gets the records."""
    with sessions.reading_by(spark, request.param):
        yield request.param


def read(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    what: dict[str, str],
    columns: list[str],
    **options: str,
) -> list[Any]:
    reader = spark.read.format("headrace").options(url=broker.native_url, **what, **options)
    return list(map(tuple, reader.load().select(*columns).orderBy("offset").collect()))


@pytest.mark.parametrize("what", [{"topic": "t"}, {"queue": "q"}, {"queue": "other"}], ids=str)
def test_some_columns_are_the_same_as_in_all(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    byte_path: str,
    what: dict[str, str],
) -> None:
    reader = spark.read.format("headrace-python").options(url=broker.native_url, **what)
    rows = [row.asDict() for row in reader.load().orderBy("offset").collect()]
    assert len(rows) > 1000
    for rows_per_task in ("500000", "171"):
        for columns in CHOICES:
            found = read(spark, broker, what, columns, rowsPerTask=rows_per_task)
            assert found == [tuple(row[name] for name in columns) for row in rows], columns


def test_what_tags_and_selectors_look_at_is_read(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    byte_path: str,
) -> None:
    for what in (
        {"topic": "t", "tags": "a"},
        {"topic": "t", "selector": "p = 'a'"},
        {"queue": "q", "selector": "h = 'a'"},
    ):
        python = spark.read.format("headrace-python").options(url=broker.native_url, **what)
        wanted = sorted(row.offset for row in python.load().collect())
        assert wanted
        assert [offset for (offset,) in read(spark, broker, what, ["offset"])] == wanted


def _change(broker: RunningBroker, offset: int, place: int) -> None:
    """Change a byte of the head of the record that has the offset."""
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        uuid = bulk.sources([{"topic": "t"}])[0].uuid
        found = bulk.call(Op.LOCATE, topic="t", uuid=uuid, start=offset, end=offset + 1, seeds=True)
    piece = ReadPlan.decode(found["job"]).pieces[0]
    path = Path(found["files"][0][0])
    data = bytearray(path.read_bytes())
    at = int.from_bytes(piece.positions[:8], "little") - piece.base
    (head_size,) = unpack_from("<I", data, at + HEAD_SIZE_AT)
    at += place if place >= 0 else head_size + place
    pack_into("<B", data, at, data[at] ^ 0x81)
    with path.open("r+b") as file:
        file.write(data)


@pytest.mark.parametrize("columns", [["offset"], ["offset", "key"], ["offset", "body"]], ids=str)
@pytest.mark.parametrize("place", [5, 7, 10, 24, 60, -3], ids=str)
def test_a_damaged_head_is_an_error_whatever_is_shown(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    byte_path: str,
    columns: list[str],
    place: int,
) -> None:
    """Of its size, of the size of the head, of its time, its destinations, its sums."""
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for _ in range(2):
                rows = [{"key": f"{n}", "body": bytes(1000)} for n in range(200)]
                bulk.call(Op.APPEND, topic="t", batch=rows)
        _change(broker, 200, place)
        with pytest.raises(Exception, match="headrace") as caught:
            read(spark, broker, {"topic": "t"}, columns)
        assert "offset 200: their checksums are wrong" in reason_of(caught.value)
