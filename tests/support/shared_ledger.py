"""A ledger of AMQP messages while nodes and databases die: what was sent, confirmed, delivered."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pika
from pika.exceptions import AMQPError

from support.nodes import Nodes

QUEUE = "ledger"
DURABLE = pika.BasicProperties(delivery_mode=2)


@dataclass
class SharedLedger:
    shared: Nodes
    sent: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    first: Counter[str] = field(default_factory=Counter)  # deliveries that were not flagged
    seen: set[str] = field(default_factory=set)
    gaps: list[float] = field(default_factory=list)  # seconds between two confirms
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def load(self, publishers: int, consumers: int) -> Iterator[None]:
        """Publish and consume while the block runs."""
        with self.shared.channel() as channel:
            channel.queue_declare(QUEUE, durable=True)
        threads = [
            *(threading.Thread(target=self._publish, args=(n,)) for n in range(publishers)),
            *(threading.Thread(target=self._consume) for _ in range(consumers)),
        ]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stop.set()
            for one in threads:
                one.join()

    def drain(self) -> None:
        """Consume what is left."""
        empty = 0
        while empty < 3:
            with suppress(AMQPError, OSError), self.shared.channel() as channel:
                while empty < 3:
                    method, _, body = channel.basic_get(QUEUE)
                    if method is None:
                        empty += 1
                        time.sleep(0.3)
                        continue
                    self._note((body or b"").decode().strip(), is_redelivered=method.redelivered)
                    channel.basic_ack(method.delivery_tag)

    def lost(self) -> set[str]:
        return self.confirmed - self.seen

    def ghosts(self) -> set[str]:
        return self.seen - self.sent

    def unflagged(self) -> list[str]:
        """Delivered more than once without the mark of a redelivery."""
        return [name for name, count in self.first.items() if count > 1]

    def _note(self, name: str, *, is_redelivered: bool) -> None:
        self.seen.add(name)
        if not is_redelivered:
            self.first[name] += 1

    def _publish(self, publisher: int) -> None:
        number, last = 0, time.monotonic()
        while not self._stop.is_set():
            with suppress(AMQPError, OSError), self.shared.channel() as channel:
                while not self._stop.is_set():
                    number += 1
                    name = f"{publisher}-{number}"
                    self.sent.add(name)
                    channel.basic_publish("", QUEUE, name.encode().ljust(256), DURABLE)
                    self.confirmed.add(name)
                    now = time.monotonic()
                    self.gaps.append(now - last)
                    last = now
            time.sleep(0.1)

    def _consume(self) -> None:
        while not self._stop.is_set():
            with suppress(AMQPError, OSError), self.shared.channel() as channel:
                channel.basic_qos(prefetch_count=50)
                for method, _, body in channel.consume(QUEUE, inactivity_timeout=0.5):
                    if self._stop.is_set():
                        break
                    if method is not None:
                        self._note(body.decode().strip(), is_redelivered=method.redelivered)
                        channel.basic_ack(method.delivery_tag)
            time.sleep(0.1)
