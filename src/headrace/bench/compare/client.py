"""Our client beside pika, on the same broker in the same run: 100 bytes, persistent, confirmed.

Both sides are programs as a user writes them, in one process each time; what counts is the ratio.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from typing import Final

from headrace.bench.compare import pika_client
from headrace.bench.compare.ratio import MeasureSetup, RatioResult
from headrace.client import BasicProperties, Channel
from headrace.client.aio import connect

BODY: Final = b"x" * 100
BATCH: Final = 500
PREFETCH: Final = 1000
ROUNDS: Final = 3
_PERSISTENT: Final = {"delivery_mode": 2}
_FILL: Final = 10_000  # messages in a call
_OURS, _PIKAS = 250_000, 60_000  # more than either side consumes in a second
_numbers = count(1)


# -- cases -----------------------------------------------------------------------------------------


def publish(setup: MeasureSetup) -> RatioResult:
    """Batches of 500, two under way / SelectConnection, confirms, 100 outstanding."""
    return _compared("publish", setup, _publish_batches, _publish_with_pika, ">= 5", publish)


def consume(setup: MeasureSetup) -> RatioResult:
    """deliveries(), each acknowledged / SelectConnection, each acknowledged."""
    return _compared("consume", setup, _consume_stream, _consume_with_pika, ">= 4", consume)


def consume_callback(setup: MeasureSetup) -> RatioResult:
    """basic_consume(), acknowledged in the callback / SelectConnection, the same."""
    sides = _consume_callbacks, _consume_with_pika
    return _compared("consume-callback", setup, *sides, "shown", consume_callback)


def consume_aio(setup: MeasureSetup) -> RatioResult:
    """basic_consume() of asyncio, with a coroutine function / SelectConnection."""
    return _compared("consume-aio", setup, _consume_aio, _consume_with_pika, "shown", consume_aio)


CASES: Final[dict[str, Callable[[MeasureSetup], RatioResult]]] = {
    "publish": publish,
    "consume": consume,
    "consume-callback": consume_callback,
    "consume-aio": consume_aio,
}


def _compared(
    case: str,
    setup: MeasureSetup,
    ours: Callable[[MeasureSetup], float],
    pika: Callable[[MeasureSetup], float],
    wanted: str,
    about: Callable[[MeasureSetup], RatioResult],
) -> RatioResult:
    """In turn, so that a noisy minute hits both."""
    rounds = [(pika(setup), ours(setup)) for _ in range(ROUNDS)]
    text = (about.__doc__ or "").splitlines()[0].rstrip(".")
    first, second = median(one[1] for one in rounds), median(one[0] for one in rounds)
    return RatioResult(case, first, second, wanted, "messages/s", text)


# -- publishing ------------------------------------------------------------------------------------


def _publish_batches(setup: MeasureSetup) -> float:
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


def _publish_with_pika(setup: MeasureSetup) -> float:
    with _queue(setup) as (_, name):
        return pika_client.publish(setup.broker.address[1], name, BODY, setup.seconds)


# -- consuming -------------------------------------------------------------------------------------


def _consume_stream(setup: MeasureSetup) -> float:
    with _queue(setup, _OURS) as (channel, name):
        channel.basic_qos(PREFETCH)
        meter = _Meter(setup, _OURS)
        for delivery in channel.deliveries(name, idle_timeout=30):
            delivery.ack()
            if meter.tick():
                break
        return meter.rate


def _consume_callbacks(setup: MeasureSetup) -> float:
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


def _consume_aio(setup: MeasureSetup) -> float:
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


def _consume_with_pika(setup: MeasureSetup) -> float:
    with _queue(setup, _PIKAS) as (_, name):
        total = _filled(setup, _PIKAS)
        return pika_client.consume(setup.broker.address[1], name, PREFETCH, total, setup.seconds)


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
