"""Native client beside pika on the same broker: 100 bytes, persistent. Not collected by pytest.

PYTHONPATH=src:tests python tests/bench/client_vs_pika.py [seconds]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pika
from pika.adapters.select_connection import SelectConnection

import brokers
from headrace.client import ConnectionFactory

BODY = b"x" * 100
PERSISTENT = pika.BasicProperties(delivery_mode=2)
OUTSTANDING = 100
BATCH = 500
ROUNDS = 3


def native_publish(broker: brokers.Broker, seconds: float) -> float:
    """Batches, two of them under way."""
    with ConnectionFactory(port=broker.ports["native"]).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("bench", durable=True)
        channel.queue_purge("bench")
        batch = [("", "bench", {"delivery_mode": 2}, BODY)] * BATCH
        begun, confirmed = time.monotonic(), 0
        under_way = channel.publish_batch_async(batch)
        while time.monotonic() - begun < seconds:
            following = channel.publish_batch_async(batch)
            confirmed += sum(len(future.result(30)) for future in under_way)
            under_way = following
        confirmed += sum(len(future.result(30)) for future in under_way)
        return confirmed / (time.monotonic() - begun)


def pika_publish(broker: brokers.Broker, seconds: float) -> float:
    """SelectConnection with confirms, a hundred messages under way."""
    state = {"sent": 0, "confirmed": 0, "begun": 0.0, "rate": 0.0}

    def opened(connection: SelectConnection) -> None:
        connection.channel(on_open_callback=ready)

    def ready(channel: pika.channel.Channel) -> None:
        def confirm(frame: pika.frame.Method) -> None:
            tag = frame.method.delivery_tag
            state["confirmed"] = max(state["confirmed"], tag)
            if time.monotonic() - state["begun"] > seconds:
                state["rate"] = state["confirmed"] / (time.monotonic() - state["begun"])
                if channel.is_open:
                    channel.connection.close()
                return
            fill()

        def fill() -> None:
            while state["sent"] - state["confirmed"] < OUTSTANDING:
                channel.basic_publish("", "bench", BODY, PERSISTENT)
                state["sent"] += 1

        def start(_: object) -> None:
            state["begun"] = time.monotonic()
            fill()

        channel.confirm_delivery(confirm, callback=start)

    drive(broker, opened)
    return state["rate"]


def native_consume(broker: brokers.Broker, seconds: float) -> float:
    """deliveries(), each acknowledged."""
    with ConnectionFactory(port=broker.ports["native"]).new_connection() as connection:
        channel = connection.create_channel()
        channel.basic_qos(1000)
        count, begun = 0, time.monotonic()
        elapsed = 0.0
        for delivery in channel.deliveries("bench", idle_timeout=1):
            delivery.ack()
            count += 1
            if count % 1000 == 0:
                elapsed = time.monotonic() - begun
                if elapsed > seconds:
                    break
        return count / elapsed


def native_callbacks(broker: brokers.Broker, seconds: float) -> float:
    """basic_consume() with a callback, acknowledged in it."""
    with ConnectionFactory(port=broker.ports["native"]).new_connection() as connection:
        channel = connection.create_channel()
        channel.basic_qos(1000)
        counts = [0]

        def callback(consumer_tag: str, properties: object, body: bytes) -> None:
            channel.basic_ack("bench", properties.message_id, wait=False)
            counts[0] += 1

        begun = time.monotonic()
        channel.basic_consume("bench", False, callback)
        time.sleep(seconds)
        return counts[0] / (time.monotonic() - begun)


def pika_consume(broker: brokers.Broker, seconds: float) -> float:
    state = {"count": 0, "begun": 0.0, "rate": 0.0}

    def opened(connection: SelectConnection) -> None:
        connection.channel(on_open_callback=ready)

    def ready(channel: pika.channel.Channel) -> None:
        def message(
            _: object, method: pika.spec.Basic.Deliver, properties: object, body: bytes
        ) -> None:
            channel.basic_ack(method.delivery_tag)
            state["count"] += 1
            if state["count"] % 100 == 0:
                elapsed = time.monotonic() - state["begun"]
                state["rate"] = state["count"] / elapsed
                if elapsed > seconds and channel.is_open:
                    channel.connection.close()

        channel.basic_qos(prefetch_count=1000)
        state["begun"] = time.monotonic()
        channel.basic_consume("bench", message)

    drive(broker, opened)
    return state["rate"]


def drive(broker: brokers.Broker, opened: Callable[[SelectConnection], None]) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    connection = SelectConnection(
        parameters,
        on_open_callback=opened,
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    cases = (pika_publish, native_publish, pika_consume, native_consume, native_callbacks)
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for case in cases:
            rates.setdefault(case.__name__, []).append(measure(case, seconds))
    median = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in median.items():
        reference = "pika_publish" if "publish" in name else "pika_consume"
        line = f"{name:<18} {rate:>9,.0f}/s  {rate / median[reference]:.1f} x pika\n"
        sys.stdout.write(line)


def measure(case: Callable[[brokers.Broker, float], float], seconds: float) -> float:
    """On a broker of its own: what one case leaves behind is no burden for the next."""
    with tempfile.TemporaryDirectory() as directory:
        broker = brokers.start(Path(directory), "--native-port", "0")
        try:
            refill(broker, 0 if "publish" in case.__name__ else seconds)
            return case(broker, seconds)
        finally:
            broker.stop()


def refill(broker: brokers.Broker, seconds: float) -> None:
    """More than anybody consumes in that time."""
    with ConnectionFactory(port=broker.ports["native"]).new_connection() as connection:
        channel = connection.create_channel()
        wanted = int(250_000 * seconds)
        missing = wanted - channel.queue_declare("bench", durable=True).messages
        message = ("", "bench", {"delivery_mode": 2}, BODY)
        for _ in range(max(0, missing), 0, -10_000):
            channel.publish_batch([message] * 10_000)


if __name__ == "__main__":
    main()
