"""Our client beside pika, on the same broker in the same run: 100 bytes, persistent, confirmed.

Both sides are programs as a user writes them, in one process each time; what counts is the ratio.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from typing import Any, Final

import pika  # type: ignore[import-untyped]
from pika.adapters.select_connection import SelectConnection  # type: ignore[import-untyped]

from headrace.bench.compare.ratio import MeasureSetup, RatioResult
from headrace.client import BasicProperties, Channel
from headrace.client.aio import connect

BODY: Final = b"x" * 100
BATCH: Final = 500
PREFETCH: Final = 1000
OUTSTANDING: Final = 100  # publishes of pika
_LOOK: Final = 100  # deliveries to pika between two looks at the clock
ROUNDS: Final = 3
_PERSISTENT: Final = {"delivery_mode": 2}
_FILL: Final = 10_000  # messages in a call
_OURS, _PIKAS = 250_000, 60_000  # more than either side consumes in a second
_numbers = count(1)


CASES: Final[dict[str, Callable[[MeasureSetup], RatioResult]]] = {}


def _case(
    name: str, theirs: Callable[[MeasureSetup], float], wanted: str
) -> Callable[[Callable[[MeasureSetup], float]], None]:
    """Our side of a case, whose docstring says what is compared with what."""

    def declare(ours: Callable[[MeasureSetup], float]) -> None:
        @functools.wraps(ours)
        def measure(setup: MeasureSetup) -> RatioResult:
            # In turn, so that a noisy minute hits both.
            rounds = [(theirs(setup), ours(setup)) for _ in range(ROUNDS)]
            about = (ours.__doc__ or "").removesuffix(".")
            first, second = median(one[1] for one in rounds), median(one[0] for one in rounds)
            return RatioResult(name, first, second, wanted, "messages/s", about)

        CASES[name] = measure

    return declare


# -- publishing ------------------------------------------------------------------------------------


def _publish_with_pika(setup: MeasureSetup) -> float:
    """Confirmed messages per second, with so many outstanding."""
    properties = pika.BasicProperties(delivery_mode=2)
    sent = confirmed = 0
    begun = rate = 0.0

    def ready(channel: Any) -> None:  # noqa: ANN401 - of pika, which has no types
        def fill() -> None:
            nonlocal sent
            while sent - confirmed < OUTSTANDING:
                channel.basic_publish("", name, BODY, properties)
                sent += 1

        def confirm(frame: Any) -> None:  # noqa: ANN401
            nonlocal confirmed, rate
            confirmed = max(confirmed, frame.method.delivery_tag)
            elapsed = time.monotonic() - begun
            if elapsed < setup.seconds:
                fill()
            elif channel.is_open:
                rate = confirmed / elapsed
                channel.connection.close()

        def start(_: object) -> None:
            nonlocal begun
            begun = time.monotonic()
            fill()

        channel.confirm_delivery(confirm, callback=start)

    with _queue(setup) as (_, name):
        _drive(setup, ready)
    return rate


@_case("publish", _publish_with_pika, ">= 5")
def _publish_batches(setup: MeasureSetup) -> float:
    """Batches of 500, two under way / SelectConnection, confirms, 100 outstanding."""
    with _queue(setup) as (channel, name):
        batch = [("", name, _PERSISTENT, BODY)] * BATCH
        begun, confirmed = time.monotonic(), 0
        under_way = channel.publish_batch_async(batch)
        while time.monotonic() - begun < setup.seconds:
            following = channel.publish_batch_async(batch)
            confirmed += sum(len(future.result(30)) for future in under_way)
            under_way = following
        confirmed += sum(len(future.result(30)) for future in under_way)
        return confirmed / (time.monotonic() - begun)


# -- consuming -------------------------------------------------------------------------------------


def _consume_with_pika(setup: MeasureSetup) -> float:
    """Messages per second, each acknowledged."""
    taken = 0
    begun = rate = 0.0

    def ready(channel: Any) -> None:  # noqa: ANN401
        def message(_: object, method: Any, properties: object, body: bytes) -> None:  # noqa: ANN401
            nonlocal taken, rate
            channel.basic_ack(method.delivery_tag)
            taken += 1
            if taken % _LOOK == 0:
                elapsed = time.monotonic() - begun
                if (elapsed > setup.seconds or taken >= total) and channel.is_open:
                    rate = taken / elapsed
                    channel.connection.close()

        nonlocal begun
        channel.basic_qos(prefetch_count=PREFETCH)
        begun = time.monotonic()
        channel.basic_consume(name, message)

    total = _filled(setup, _PIKAS)
    with _queue(setup, _PIKAS) as (_, name):
        _drive(setup, ready)
    return rate


def _drive(setup: MeasureSetup, ready: Callable[[Any], None]) -> None:
    """Until the connection is closed; ``ready`` gets its channel when that is open."""
    connection = SelectConnection(
        pika.ConnectionParameters("127.0.0.1", setup.broker.address.port),
        on_open_callback=lambda opened: opened.channel(on_open_callback=ready),
        # The socket is closed by what waits in the loop at this moment.
        on_close_callback=lambda closed, _: closed.ioloop.call_later(0.01, closed.ioloop.stop),
    )
    connection.ioloop.start()
    connection.ioloop.close()


@_case("consume", _consume_with_pika, ">= 4")
def _consume_stream(setup: MeasureSetup) -> float:
    """deliveries(), each acknowledged / SelectConnection, each acknowledged."""
    with _queue(setup, _OURS) as (channel, name):
        channel.basic_qos(PREFETCH)
        meter = _Meter(setup, _OURS)
        for delivery in channel.deliveries(name, idle_timeout=30):
            delivery.ack()
            if meter.tick():
                break
        return meter.rate


@_case("consume-callback", _consume_with_pika, "shown")
def _consume_callbacks(setup: MeasureSetup) -> float:
    """basic_consume(), acknowledged in the callback / SelectConnection, the same."""
    with _queue(setup, _OURS) as (channel, name):
        channel.basic_qos(PREFETCH)
        meter, done = _Meter(setup, _OURS), threading.Event()

        def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
            channel.basic_ack(name, properties.message_id)
            if meter.tick():
                done.set()

        tag = channel.basic_consume(name, False, callback)
        done.wait(setup.seconds + 60)
        channel.basic_cancel(tag)
        return meter.rate


@_case("consume-aio", _consume_with_pika, "shown")
def _consume_aio(setup: MeasureSetup) -> float:
    """basic_consume() of asyncio, with a coroutine function / SelectConnection."""
    with _queue(setup, _OURS) as (_, name):
        return asyncio.run(_consume_coroutines(setup, name))


async def _consume_coroutines(setup: MeasureSetup, name: str) -> float:
    async with connect(port=setup.broker.native_port) as connection:
        channel = await connection.create_channel()
        await channel.basic_qos(PREFETCH)
        meter, done = _Meter(setup, _OURS), asyncio.Event()

        async def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
            await channel.basic_ack(name, properties.message_id)
            if meter.tick():
                done.set()

        await channel.basic_consume(name, False, callback)
        async with asyncio.timeout(setup.seconds + 60):
            await done.wait()
        return meter.rate


class _Meter:
    """Counts what is consumed; looks at the clock now and then."""

    def __init__(self, setup: MeasureSetup, filled: int) -> None:
        self.rate = 0.0
        self._seconds, self._total = setup.seconds, _filled(setup, filled)
        self._count = 0
        self._begun = time.monotonic()

    def tick(self) -> bool:
        """True when it is enough."""
        self._count += 1
        if self._count % 1000 or self.rate:
            return False
        elapsed = time.monotonic() - self._begun
        if elapsed < self._seconds and self._count < self._total:
            return False
        self.rate = self._count / elapsed
        return True


# -- queues ----------------------------------------------------------------------------------------


@contextmanager
def _queue(setup: MeasureSetup, filled: int = 0) -> Iterator[tuple[Channel, str]]:
    """A durable queue with more than is consumed in the time; gone afterwards."""
    name = f"bench-{next(_numbers)}"
    with setup.factory.new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare(name, durable=True)
        batch = [("", name, _PERSISTENT, BODY)] * _FILL
        for _ in range(0, _filled(setup, filled), _FILL):
            channel.publish_batch(batch)
        yield channel, name
    with setup.factory.new_connection() as connection:
        connection.create_channel().queue_delete(name)


def _filled(setup: MeasureSetup, per_second: int) -> int:
    """Whole calls."""
    return -(-round(per_second * setup.seconds) // _FILL) * _FILL
