"""Messages and queues of a size that is rare."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pika
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.wire.native.payloads import Op
from support import brokers
from support.brokers import Broker
from support.spark_lab import sessions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
MESSAGES = 10_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = brokers.start(tmp_path, "--max-message-size", "80MiB")
    yield broker
    broker.stop()


def table(spark: Any, broker: Broker, **options: str) -> Any:  # noqa: ANN401
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    return spark.read.format("headrace").options(url=url, queue="q", **options).load()


@pytest.mark.parametrize("way", ["files", "network"])
def test_a_message_of_64_mib_is_read(spark: Any, broker: Broker, way: str) -> None:  # noqa: ANN401
    body = bytes(range(256)) * (1 << 18)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for one in (b"before", body, b"after"):
            channel.basic_publish("", "q", one, pika.BasicProperties(delivery_mode=2))
    with sessions.reading_by(spark, way):
        rows = table(spark, broker).selectExpr("length(body)", "crc32(body)").collect()
    assert [tuple(row) for row in rows] == [
        (len(one), crc32(one)) for one in (b"before", body, b"after")
    ]


def test_a_queue_of_ten_million_messages_is_planned_in_a_second(
    spark: Any,  # noqa: ANN401
    broker: Broker,
) -> None:
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
        message = {"exchange": "", "key": "q", "body": b"x", "properties": {"delivery_mode": 2}}
        for _ in range(MESSAGES // 5000):
            bulk.call(Op.PUBLISH, batch=[message] * 5000)
    assert table(spark, broker).limit(1).collect()  # everything is loaded
    started = time.perf_counter()
    planned = table(spark, broker).rdd.getNumPartitions()
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    assert table(spark, broker).count() == MESSAGES
    sys.stdout.write(f"planned {seconds:.2f} s, counted {time.perf_counter() - started:.2f} s\n")
    assert planned == MESSAGES // 500_000
    assert seconds < 1
