"""A program on pika's SelectConnection: it publishes with confirms, or consumes with acks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pika  # type: ignore[import-untyped]
from pika.adapters.select_connection import SelectConnection  # type: ignore[import-untyped]

OUTSTANDING: Final = 100
_LOOK: Final = 100  # deliveries between two looks at the clock

Ready = Callable[[Any], None]  # gets the open channel


def publish(port: int, queue: str, body: bytes, seconds: float) -> float:
    """Confirmed messages per second, with so many outstanding."""
    properties = pika.BasicProperties(delivery_mode=2)
    sent = confirmed = 0
    begun = rate = 0.0

    def ready(channel: Any) -> None:  # noqa: ANN401 - of pika, which has no types
        def fill() -> None:
            nonlocal sent
            while sent - confirmed < OUTSTANDING:
                channel.basic_publish("", queue, body, properties)
                sent += 1

        def confirm(frame: Any) -> None:  # noqa: ANN401
            nonlocal confirmed, rate
            confirmed = max(confirmed, frame.method.delivery_tag)
            elapsed = time.monotonic() - begun
            if elapsed < seconds:
                fill()
            elif channel.is_open:
                rate = confirmed / elapsed
                channel.connection.close()

        def start(_: object) -> None:
            nonlocal begun
            begun = time.monotonic()
            fill()

        channel.confirm_delivery(confirm, callback=start)

    _drive(port, ready)
    return rate


def consume(port: int, queue: str, prefetch: int, count: int, seconds: float) -> float:
    """Messages per second, each acknowledged; ``count`` are there to be taken."""
    taken = 0
    begun = rate = 0.0

    def ready(channel: Any) -> None:  # noqa: ANN401
        def message(_: object, method: Any, properties: object, body: bytes) -> None:  # noqa: ANN401
            nonlocal taken, rate
            channel.basic_ack(method.delivery_tag)
            taken += 1
            if taken % _LOOK == 0:
                elapsed = time.monotonic() - begun
                if (elapsed > seconds or taken >= count) and channel.is_open:
                    rate = taken / elapsed
                    channel.connection.close()

        nonlocal begun
        channel.basic_qos(prefetch_count=prefetch)
        begun = time.monotonic()
        channel.basic_consume(queue, message)

    _drive(port, ready)
    return rate


def _drive(port: int, ready: Ready) -> None:
    """Until the connection is closed."""
    connection = SelectConnection(
        pika.ConnectionParameters("127.0.0.1", port),
        on_open_callback=lambda opened: opened.channel(on_open_callback=ready),
        # The socket is closed by what waits in the loop at this moment.
        on_close_callback=lambda closed, _: closed.ioloop.call_later(0.01, closed.ioloop.stop),
    )
    connection.ioloop.start()
    connection.ioloop.close()
