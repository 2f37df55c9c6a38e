"""From a case to names, topology and pre-encoded blocks: what one measurement does on the wire."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.bench.cases import WRITE_BYTES, Case
from headrace.bench.load import contents
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.wire.amqp.method_codec import method_frame
from headrace.wire.amqp.methods import BasicDeliver, BasicPublish

_KEYS_PER_BLOCK = 100_000
MATCHING = "m.*.end"
"""The one binding every distinct key matches; none of the others in `other_patterns` does."""


@dataclass(frozen=True, slots=True)
class PublishBlock:
    """Publishes end to end, all of `size` bytes."""

    data: bytes
    size: int

    @property
    def count(self) -> int:
        return len(self.data) // self.size


class LoadPlan:
    """Names are of constant width, so that every delivery of a measurement has the same size."""

    def __init__(self, case: Case, prefix: str, *, bindings: int = 1) -> None:
        self.case = case
        self.exchange = f"{prefix}x" if case.exchange else ""
        total = case.pairs * case.queues
        self.queues = [f"{prefix}q{number:03d}" for number in range(total)]
        self._others = [f"{prefix}o{number:05d}" for number in range(case.others)]
        self._bindings = bindings
        self._contents = _contents(case)

    def queues_of(self, pair: int) -> list[str]:
        return self.queues[pair * self.case.queues : (pair + 1) * self.case.queues]

    def set_up(self, link: AmqpConnection) -> None:
        durable = self.case.durable
        if self.exchange:
            link.declare_exchange(self.exchange, self.case.exchange, durable=durable)
        for queue in self.queues:
            link.declare_queue(queue, durable=durable)
            if self.exchange:
                link.bind(queue, self.exchange, self._binding_keys())
        for other in self._others:
            link.declare_queue(other, durable=durable)
        self._fill(link)

    def _fill(self, link: AmqpConnection) -> None:
        """Messages that wait in the first queue before anything is measured."""
        missing = self.case.standing
        while missing > 0:
            for block in self.blocks(0):
                link.sock.sendall(block.data)
                missing -= block.count
                if missing <= 0:
                    break
        while self.case.standing and link.count(self.queues[0]) < self.case.standing:
            time.sleep(0.05)

    def tear_down(self, link: AmqpConnection) -> None:
        for queue in [*self.queues, *self._others]:
            link.delete_queue(queue)
        if self.exchange:
            link.delete_exchange(self.exchange)

    def _binding_keys(self) -> list[str]:
        if self.case.exchange == "fanout":
            return [""]
        if self._bindings == 1:
            return ["#"]
        return [MATCHING, *other_patterns(self._bindings - 1)]

    # -- publishes -----------------------------------------------------------------------------

    def blocks(self, pair: int) -> Iterator[PublishBlock]:
        """Endless blocks of publishes; the same one again and again when it is all there is."""
        distinct = self.case.distinct_keys
        if not distinct:
            return itertools.repeat(self._encode(self._mixed_keys(pair)))
        if distinct <= _KEYS_PER_BLOCK:
            return itertools.repeat(self._encode(distinct_keys(0, distinct)))
        starts = itertools.cycle(range(0, distinct, _KEYS_PER_BLOCK))
        return (self._encode(distinct_keys(n, n + _KEYS_PER_BLOCK)) for n in starts)

    def _mixed_keys(self, pair: int) -> list[str]:
        """One key per message of a block: the queues in turn, message by message."""
        keys = [""] if self.exchange else self.queues_of(pair)
        size = len(self._publish(keys[0], 0))
        fill = max(1, WRITE_BYTES // size)
        count = max(fill, len(self._contents), len(keys))
        count += -count % len(keys)
        return [keys[n % len(keys)] for n in range(count)]

    def _encode(self, keys: list[str]) -> PublishBlock:
        parts = [self._publish(key, number) for number, key in enumerate(keys)]
        size = len(parts[0])
        if any(len(part) != size for part in parts):
            raise AssertionError("publishes of one case must have one size")
        return PublishBlock(b"".join(parts), size)

    def _publish(self, key: str, number: int) -> bytes:
        method = method_frame(1, BasicPublish(exchange=self.exchange, routing_key=key))
        return method + self._contents[number % len(self._contents)]

    # -- deliveries ----------------------------------------------------------------------------

    @property
    def tags(self) -> list[str]:
        """Consumer tags on one channel, one per queue."""
        return [f"c{number:03d}" for number in range(self.case.queues)]

    @property
    def delivery_size(self) -> int:
        key = self.queues[0]
        if self.case.exchange == "fanout":
            key = ""
        elif self.exchange:
            key = distinct_keys(0, 1)[0]
        method = method_frame(1, BasicDeliver(self.tags[0], 1, False, self.exchange, key))
        return len(method) + len(self._contents[0])


def _contents(case: Case) -> list[bytes]:
    if case.celery:
        return contents.celery(persistent=case.durable)
    if case.varied:
        return contents.varied(persistent=case.durable)
    return [contents.plain(case.body, persistent=case.durable)]


def distinct_keys(start: int, stop: int) -> list[str]:
    return [f"m.{number:07d}.end" for number in range(start, stop)]


def other_patterns(count: int) -> list[str]:
    """Topic patterns that share words with the keys and match none of them."""
    shapes = ("m.{:07d}.*.end", "*.{:07d}.other", "other.{:07d}.#")
    return [shapes[number % 3].format(number) for number in range(count)]
