"""The broker is killed under programs that use the native client; they continue."""

from __future__ import annotations

import threading

from headrace.client import Channel, ConnectionFactory, HeadraceError
from headrace.demo.broker import DemoBroker
from headrace.demo.output import DemoOutput

QUEUE = "orders-unattended"
EACH = 200
_SECONDS = 20.0


class _Log:
    """Orders as they come, for another thread to wait for."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self._moved = threading.Condition()

    def add(self, order: str) -> None:
        with self._moved:
            self.orders.append(order)
            self._moved.notify_all()

    def wait_until(self, count: int) -> bool:
        """Until there are so many different ones; False when they do not come."""
        with self._moved:
            return self._moved.wait_for(lambda: len(set(self.orders)) >= count, _SECONDS)


class _Producer(threading.Thread):
    """Publishes until stopped; publishes unconfirmed messages again."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(daemon=True)
        self.sent: list[str] = []
        self.confirmed = _Log()
        self.error: HeadraceError | None = None
        self.stop = threading.Event()
        self._channel = channel

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                order = f"order {len(self.sent)}"
                self.sent.append(order)
                self._channel.basic_publish("", QUEUE, {"delivery_mode": 2}, order, retry=True)
                self.confirmed.add(order)
        except HeadraceError as error:
            self.error = error


def unattended(output: DemoOutput, broker: DemoBroker) -> None:
    """The broker is killed again, and clients recover by themselves"""
    output.remark(
        "A producer and a consumer use the native client. They are not restarted: they reconnect, "
        "declare their queue again, and publish again what was not confirmed."
    )
    factory = ConnectionFactory(port=broker.native_port)
    received = _Log()
    with factory.new_connection() as sending, factory.new_connection() as receiving:
        channel, reader = sending.create_channel(), receiving.create_channel()
        channel.queue_declare(QUEUE, durable=True)
        reader.basic_consume(QUEUE, True, lambda tag, properties, body: received.add(body.decode()))
        producer = _Producer(channel)
        producer.start()
        before = producer.confirmed.wait_until(EACH)
        broker.kill()
        count = len(producer.confirmed.orders)
        output.say(f"killed after {count:,} confirmed orders")
        output.say(f"restarted in {broker.restart():.2f} s")
        after = producer.confirmed.wait_until(count + EACH)
        producer.stop.set()
        producer.join(_SECONDS)
        confirmed = set(producer.confirmed.orders)
        received.wait_until(len(confirmed))
    got = received.orders

    again = len(got) - len(set(got))
    output.check("the producer published before and after the restart", before and after)
    output.expect("it saw no error", producer.error, None)
    missing = len(confirmed - set(got))
    output.expect(f"the consumer received all {len(confirmed):,} confirmed orders", missing, 0)
    output.expect("it received no order that was never sent", len(set(got) - set(producer.sent)), 0)
    output.remark(
        f"Delivered twice: {again}. An order that was published again, or not acknowledged in "
        "time, may be delivered twice; consumers must tolerate this."
    )
