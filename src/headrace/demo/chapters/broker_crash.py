"""The broker is killed while a publisher is busy; a ledger of confirms has the outcome."""

from __future__ import annotations

import threading
from contextlib import suppress

import pika  # type: ignore[import-untyped]

from headrace.demo.broker import DemoBroker
from headrace.demo.clients import ClientError, Clients
from headrace.demo.output import DemoOutput

QUEUE = "orders-in-the-storm"
BEFORE_THE_KILL = 300


class _Publisher(threading.Thread):
    """Publishes persistent orders with confirms until the broker is gone; keeps the ledger."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.far_enough = threading.Event()
        self._url = url

    def run(self) -> None:
        with suppress(ClientError, OSError):
            connection = pika.BlockingConnection(pika.URLParameters(self._url))
            channel = connection.channel()
            channel.confirm_delivery()
            persistent = pika.BasicProperties(delivery_mode=2)
            while True:
                order = f"order {len(self.sent)}"
                self.sent.append(order)
                channel.basic_publish("", QUEUE, order.encode(), persistent)
                self.confirmed.append(order)
                if len(self.confirmed) == BEFORE_THE_KILL:
                    self.far_enough.set()


def crash(output: DemoOutput, broker: DemoBroker) -> None:
    """The broker is killed with SIGKILL, and nothing is lost"""
    output.remark("A publisher records every confirmed order. The broker is killed meanwhile.")
    with Clients(broker.url) as clients:
        clients.connect().queue(QUEUE)
    publisher = _Publisher(broker.url)
    publisher.start()
    publisher.far_enough.wait(20)
    broker.kill()
    publisher.join(10)
    output.say(f"killed after {len(publisher.confirmed)} confirmed orders")
    seconds = broker.restart()
    output.say(f"restarted in {seconds:.2f} s")
    with Clients(broker.url) as clients:
        reader = clients.connect()
        waiting = reader.ready(QUEUE)
        reader.consume(QUEUE)
        clients.until(lambda: len(reader.inbox) >= waiting)
        found = reader.bodies()
        redelivered = [one.redelivered for one in reader.inbox]
    lost = set(publisher.confirmed) - set(found)
    output.check("the publisher was busy when the broker was killed", publisher.far_enough.is_set())
    output.expect("no confirmed order was lost", len(lost), 0)
    output.expect(
        "the queue has no order that was never sent", len(set(found) - set(publisher.sent)), 0
    )
    output.expect("the queue has no order twice", len(found) - len(set(found)), 0)
    output.expect("the orders are in the order of publishing", found, publisher.sent[: len(found)])
    output.check("all have the redelivered flag: some may have been delivered", all(redelivered))
