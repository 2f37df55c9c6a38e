"""A ledger of messages while nodes and databases die: what was sent, confirmed, delivered.

Publishers and consumers are those of pika, aio-pika, Celery and our own client, each with the list
of all nodes. What a client says of a connection that ends is no verdict: only the ledger is.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import aio_pika
import celery
import pika
from aio_pika.abc import DeliveryMode

from headrace.client import ConnectionFactory, HeadraceError
from headrace.errors import BrokerError
from headrace.testing.amqp_connection import RawConnection
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.properties import Properties
from support.nodes import Nodes

QUEUE, TASKS = "ledger", "tasks"
DURABLE = pika.BasicProperties(delivery_mode=2)
WINDOW = 250
_PAUSE_S = 0.05


@dataclass
class SharedLedger:
    shared: Nodes
    sent: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    first: Counter[str] = field(default_factory=Counter)  # deliveries that were not flagged
    seen: set[str] = field(default_factory=set)
    confirms: Counter[str] = field(default_factory=Counter)  # by client
    longest_gap: float = 0.0  # seconds between two confirms, of whichever client
    _last: float = 0.0
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Publish and consume while the block runs."""
        with self.shared.channel() as channel:
            for queue in (QUEUE, TASKS):
                channel.queue_declare(queue, durable=True)
        self._last = time.monotonic()
        clients = (
            self._pika, self._impatient, self._aio_pika, self._celery, self._headrace,
            self._consume_with_pika, self._consume_with_headrace, self._consume_tasks,
        )  # fmt: skip
        threads = [threading.Thread(target=self._repeat, args=(one,)) for one in clients]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def drain(self) -> None:
        """Consume what is left."""
        for queue in (QUEUE, TASKS):
            empty = 0
            while empty < 3:
                with suppress(Exception), self.shared.channel() as channel:
                    channel.basic_qos(prefetch_count=500)
                    for method, properties, body in channel.consume(queue, inactivity_timeout=1):
                        if method is None:
                            empty += 1
                            if empty == 3:
                                break
                            continue
                        empty = 0
                        self._note(queue, properties, body, is_redelivered=method.redelivered)
                        channel.basic_ack(method.delivery_tag)
                time.sleep(_PAUSE_S)

    def lost(self) -> set[str]:
        return self.confirmed - self.seen

    def ghosts(self) -> set[str]:
        return self.seen - self.sent

    def unflagged(self) -> list[str]:
        """Delivered more than once without the mark of a redelivery."""
        return [name for name, count in self.first.items() if count > 1]

    # -- the accounts ----------------------------------------------------------------------------

    def _names(self, client: str) -> Iterator[str]:
        """Each is noted as sent before it is."""
        while not self._stop.is_set():
            with self._lock:
                self._number += 1
                self.sent.add(name := f"{client}-{self._number}")
            yield name

    def _confirm(self, client: str, *names: str) -> None:
        now = time.monotonic()
        with self._lock:
            self.confirmed.update(names)
            self.confirms[client] += len(names)
            self.longest_gap = max(self.longest_gap, now - self._last)
            self._last = now

    def take_longest_gap(self) -> float:
        """Of the time since the last call."""
        with self._lock:
            found, self.longest_gap = self.longest_gap, 0.0
        return found

    def _note(
        self, queue: str, properties: pika.BasicProperties, body: bytes, *, is_redelivered: bool
    ) -> None:
        self._deliver(str(properties.correlation_id) if queue == TASKS else body.decode().strip(),
                      is_redelivered=is_redelivered)  # fmt: skip

    def _deliver(self, name: str, *, is_redelivered: bool) -> None:
        with self._lock:
            self.seen.add(name)
            if not is_redelivered:
                self.first[name] += 1

    # -- clients ---------------------------------------------------------------------------------

    def _repeat(self, client: Callable[[], None]) -> None:
        """Whatever ends its connection, it begins again."""
        while not self._stop.is_set():
            with suppress(Exception):
                client()
            self._stop.wait(_PAUSE_S)

    def _pika(self) -> None:
        with self.shared.channel() as channel:
            for name in self._names("pika"):
                channel.basic_publish("", QUEUE, name.encode().ljust(256), DURABLE)
                self._confirm("pika", name)

    def _impatient(self) -> None:
        """Gives a node up that is silent for a second: it shows when another one serves."""
        for node in self.shared.all:
            with suppress(BrokerError, OSError):
                with socket.create_connection(("127.0.0.1", node.amqp), timeout=1) as knock:
                    knock.sendall(b"AMQP\0\0\x09\x01")
                    if not knock.recv(1):
                        continue
                link = RawConnection(node.amqp)
                try:
                    link.open_channel(1)
                    link.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
                    for name in self._names("impatient"):
                        body = name.encode().ljust(256)
                        link.publish(1, "", QUEUE, body, Properties(delivery_mode=2))
                        link.wait_for(m.BasicAck, 1, seconds=1)
                        self._confirm("impatient", name)
                        self._stop.wait(0.01)
                finally:
                    link.close()

    def _aio_pika(self) -> None:
        asyncio.run(self._publish_with_aio_pika())

    async def _publish_with_aio_pika(self) -> None:
        for node in self.shared.all:
            with suppress(Exception):
                connection = await asyncio.wait_for(
                    aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{node.amqp}/?heartbeat=4"), 2
                )
                async with connection:
                    channel = await connection.channel()
                    names = self._names("aio-pika")
                    while batch := [name for _, name in zip(range(WINDOW), names, strict=False)]:
                        await asyncio.wait_for(
                            asyncio.gather(*(self._publish_one(channel, one) for one in batch)), 4
                        )

    async def _publish_one(self, channel: aio_pika.abc.AbstractChannel, name: str) -> None:
        message = aio_pika.Message(name.encode().ljust(256), delivery_mode=DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, QUEUE)
        self._confirm("aio-pika", name)

    def _celery(self) -> None:
        hosts = ";".join(f"amqp://guest:guest@127.0.0.1:{one.amqp}//" for one in self.shared.all)
        app = celery.Celery("ledger", broker=hosts)
        app.conf.update(
            broker_transport_options={"confirm_publish": True},
            broker_connection_timeout=2, broker_heartbeat=4, task_default_queue=TASKS,
        )  # fmt: skip
        try:
            with app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=2, interval_start=0.05, interval_step=0)
                producer = app.amqp.Producer(connection.default_channel)
                for name in self._names("celery"):
                    app.send_task("note", args=(name,), task_id=name, producer=producer,
                                  retry=False, ignore_result=True)  # fmt: skip
                    self._confirm("celery", name)
        finally:
            app.close()

    def _headrace(self) -> None:
        hosts = ",".join(f"127.0.0.1:{one.native}" for one in self.shared.all)
        factory = ConnectionFactory(host=hosts, connect_timeout=3, request_timeout=5)
        with factory.new_connection() as connection:
            channel = connection.create_channel()
            names = self._names("headrace")
            while batch := [name for _, name in zip(range(WINDOW), names, strict=False)]:
                with suppress(HeadraceError):
                    channel.publish_batch(
                        ("", QUEUE, {"delivery_mode": 2}, name.encode().ljust(256))
                        for name in batch
                    )
                    self._confirm("headrace", *batch)

    def _consume_with_pika(self) -> None:
        with self.shared.channel() as channel:
            channel.basic_qos(prefetch_count=200)
            for method, properties, body in channel.consume(QUEUE, inactivity_timeout=0.5):
                if self._stop.is_set():
                    break
                if method is not None:
                    self._note(QUEUE, properties, body, is_redelivered=method.redelivered)
                    channel.basic_ack(method.delivery_tag)

    def _consume_with_headrace(self) -> None:
        hosts = ",".join(f"127.0.0.1:{one.native}" for one in self.shared.all)
        factory = ConnectionFactory(host=hosts, connect_timeout=3, request_timeout=5)
        with factory.new_connection() as connection:
            channel = connection.create_channel()
            channel.basic_qos(500)
            while not self._stop.is_set():
                for delivery in channel.deliveries(QUEUE, idle_timeout=0.5):
                    self._deliver(
                        delivery.body.decode().strip(),
                        is_redelivered=delivery.properties.redelivered,
                    )
                    delivery.ack()
                    if self._stop.is_set():
                        break

    def _consume_tasks(self) -> None:
        with self.shared.channel() as channel:
            channel.basic_qos(prefetch_count=200)
            for method, properties, body in channel.consume(TASKS, inactivity_timeout=0.5):
                if self._stop.is_set():
                    break
                if method is not None:
                    self._note(TASKS, properties, body or b"", is_redelivered=method.redelivered)
                    channel.basic_ack(method.delivery_tag)
