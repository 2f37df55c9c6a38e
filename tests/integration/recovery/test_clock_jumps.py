"""A system clock that jumps: what is stored expires and falls due by time that has passed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pika
import pytest

from headrace.core.clock import BELIEVED_SECONDS
from headrace.testing import RunningBroker, run_broker, wait_for

HOUR = 3600
MESSAGES = 3
DURABLE = {"delivery_mode": 2}


def jump(broker: RunningBroker, seconds: float) -> None:
    assert broker.clock is not None
    broker.clock.jump(seconds)


def fill_topic(broker: RunningBroker, retention_hours: int) -> None:
    with httpx.Client(timeout=60, base_url=str(broker.http_url), auth=("guest", "guest")) as api:
        body = {"retention_ms": retention_hours * HOUR * 1000}
        assert api.put("/api/topics/%2F/t", json=body).status_code == 201
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(MESSAGES):
            channel.basic_publish("topic.t", "k", b"x", pika.BasicProperties(**DURABLE))


def kept(broker: RunningBroker) -> int:
    broker.advance(6)  # tidies
    with httpx.Client(timeout=60, base_url=str(broker.http_url), auth=("guest", "guest")) as api:
        return int(api.get("/api/topics/%2F/t").json()["messages"])


def test_a_jump_ahead_does_not_empty_topics() -> None:
    with run_broker(clock="virtual", heartbeat=0) as broker:
        fill_topic(broker, 1)
        jump(broker, 2 * HOUR)
        assert kept(broker) == MESSAGES
        jump(broker, -2 * HOUR)
        assert kept(broker) == MESSAGES

        broker.advance(HOUR)  # this hour has passed
        assert kept(broker) == 0


def delay_a_message(broker: RunningBroker, seconds: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        arguments = {"x-delayed-type": "fanout"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
        channel.queue_bind("q", "later")
        properties = pika.BasicProperties(headers={"x-delay": seconds * 1000}, **DURABLE)
        channel.basic_publish("later", "k", b"x", properties)


@pytest.mark.parametrize("starts_wrong", [False, True], ids=["while it ran", "before it started"])
def test_delayed_messages_do_not_wait_for_a_clock_that_was_set_right(
    tmp_path: Path, starts_wrong: bool
) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data", heartbeat=0) as broker:
        jump(broker, 2 * HOUR)
        if starts_wrong:
            broker.restart()
        delay_a_message(broker, 60)
        jump(broker, -2 * HOUR)
        broker.restart()
        broker.advance(55)
        assert broker.queues()["q"].messages == 0
        broker.advance(10)
        wait_for(lambda: broker.queues()["q"].messages == 1)


def test_only_a_bounded_absence_is_believed_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data", heartbeat=0) as broker:
        fill_topic(broker, 30)
        broker.stop()
        jump(broker, BELIEVED_SECONDS + 10 * HOUR)
        broker.start()
        assert kept(broker) == MESSAGES
        assert "or the clock is wrong" in caplog.text
        broker.advance(2 * HOUR)  # 28 hours count
        assert kept(broker) == MESSAGES
        broker.advance(4 * HOUR)
        assert kept(broker) == 0


def test_a_short_absence_counts(tmp_path: Path) -> None:
    with run_broker(clock="virtual", data_dir=tmp_path / "data", heartbeat=0) as broker:
        fill_topic(broker, 1)
        broker.stop()
        jump(broker, 2 * HOUR)
        broker.start()
        assert kept(broker) == 0
