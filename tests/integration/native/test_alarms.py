"""Alarms hold publishers back, and only them; the disk sets the pace."""

from __future__ import annotations

import pytest

from support.brokers import Broker
from support.native_types import Connect, Namer, StartBroker
from support.raw_native import CONSUME, PUBLISH, QUEUE_DECLARE, Native, NothingCame


@pytest.fixture
def alarmed(start_broker: StartBroker) -> Broker:
    """A broker to which any memory is too much."""
    return start_broker(env={"HEADRACE_MEMORY_HIGH_WATERMARK": "1MiB"})


def test_a_publisher_is_read_no_more(alarmed: Broker, connect: Connect) -> None:
    client = connect(alarmed)
    queue = client.queue()
    client.publish("", queue, b"x")
    rid = client.request(QUEUE_DECLARE, name="")

    with pytest.raises(NothingCame):
        client.answer(rid, limit=0.3)


def test_a_consumer_goes_on(alarmed: Broker, connect: Connect) -> None:
    consumer, publisher = connect(alarmed), connect(alarmed)
    queue = consumer.queue()
    consumer.call(CONSUME, queue=queue)
    publisher.publish("", queue, b"x")

    assert consumer.deliveries(1)[0]["body"] == b"x"
    consumer.queue()


def test_a_publisher_faster_than_the_disk_loses_nothing(client: Native, name: Namer) -> None:
    own = client.queue(name(), durable=True)
    body = bytes(50_000)
    one = {"exchange": "", "key": own, "properties": {"delivery_mode": 2}, "body": body}
    rids = [client.request(PUBLISH, batch=[one] * 10) for _ in range(80)]

    assert sum(sum(client.answer(rid, limit=30)["routed"]) for rid in rids) == 800
    client.call(CONSUME, queue=own, auto_ack=True)
    assert len(client.deliveries(800, limit=30)) == 800
