"""The chapters whose clients use pika: an ordinary day, failures and delays, a crash."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pika  # type: ignore[import-untyped]

from headrace.demo.broker import DemoBroker
from headrace.demo.clients import ClientError, Clients, CollectedMessage, DemoClient
from headrace.demo.output import DemoOutput
from headrace.testing.broker_process import own_environment


def routing(output: DemoOutput, clients: Clients) -> None:
    """Routing: a topic exchange and two bindings"""
    shop = clients.connect()
    shop.channel.exchange_declare("orders", "topic", durable=True)
    for queue, pattern in (("europe", "orders.eu.*"), ("ledger", "orders.#")):
        shop.channel.queue_bind(shop.queue(queue), "orders", pattern)
    output.remark("Each order has a routing key; each queue is bound with a pattern.")
    output.say("  europe  orders.eu.*")
    output.say("  ledger  orders.#")

    keys = ("orders.eu.book", "orders.us.book", "orders.eu.book.used", "orders", "refunds.eu")
    for key in keys:
        shop.publish(key, key, exchange="orders")

    output.expect(
        "europe received orders.eu.book and nothing else", drain(shop, "europe"), [*keys[:1]]
    )
    output.expect("ledger received all four orders, in order", drain(shop, "ledger"), [*keys[:4]])


def fair_sharing(output: DemoOutput, clients: Clients) -> None:
    """Work queue: three consumers share the messages"""
    output.remark("Anna, Ben and Clara consume from the same queue.")
    shop = clients.connect()
    queue = shop.queue("packing")
    names = ("anna", "ben", "clara")
    workers = [clients.connect() for _ in names]
    for worker in workers:
        worker.consume(queue, acks=False)

    orders = [f"order {number}" for number in range(300)]
    for order in orders:
        shop.publish(queue, order)
    clients.until(lambda: sum(len(worker.inbox) for worker in workers) >= len(orders))

    counts = [len(worker.inbox) for worker in workers]
    seen = "  ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    output.check("300 orders, 100 for each consumer", counts == [100, 100, 100], seen)
    output.expect("in rotation: anna received every third order", workers[0].bodies(), orders[::3])


def slow_worker(output: DemoOutput, clients: Clients) -> None:
    """Prefetch: a slow consumer does not delay the others"""
    output.remark("One of two consumers takes a parcel and never acknowledges it.")
    shop, slow, quick = clients.connect(), clients.connect(), clients.connect()
    queue = shop.queue("wrapping")
    slow.consume(queue, prefetch=1)  # takes one, and never finishes it
    quick.consume(queue, prefetch=20, then=quick.ack)

    for number in range(100):
        shop.publish(queue, f"parcel {number}")
    clients.until(lambda: len(slow.inbox) + len(quick.inbox) >= 100)

    seen = f"slow {len(slow.inbox)}  quick {len(quick.inbox)}"
    done = (len(slow.inbox), len(quick.inbox)) == (1, 99)
    output.check("with prefetch 1 the slow one holds 1 parcel, the other did 99", done, seen)


def confirms(output: DemoOutput, clients: Clients) -> None:
    """Confirms and returns"""
    output.remark("The shop publishes invoices with confirms and the mandatory flag.")
    shop = clients.connect()
    queue = shop.queue("invoices")
    shop.channel.confirm_delivery()

    returned = [shop.is_returned(queue, f"invoice {number}") for number in range(20)]
    output.expect("20 invoices published and confirmed, none returned", returned, [False] * 20)
    output.expect("all 20 are in the queue", shop.ready(queue), 20)
    lost = shop.is_returned("no-such-queue", "invoice 21")
    output.check("an invoice for a queue that does not exist was returned", lost)


def priorities(output: DemoOutput, clients: Clients) -> None:
    """Priorities"""
    output.remark("Four orders are published: letter (0), parcel (5), flowers (9) and card (0).")
    shop = clients.connect()
    queue = shop.queue("express", {"x-max-priority": 9})

    for body, priority in (("letter", 0), ("parcel", 5), ("flowers", 9), ("card", 0)):
        shop.publish(queue, body, priority=priority)

    wanted = ["flowers", "parcel", "letter", "card"]
    output.expect("delivered by priority: " + ", ".join(wanted), drain(shop, queue), wanted)


def answers(output: DemoOutput, clients: Clients) -> None:
    """Remote calls: direct reply-to"""
    output.remark("A client sends two requests at once; replies are matched by correlation id.")
    server, buyer = clients.connect(), clients.connect()
    queue = server.queue("prices")
    prices = {"tea": "3.20", "cup": "7.50"}
    server.consume(
        queue,
        acks=False,
        then=lambda asked: server.publish(
            asked.properties.reply_to,
            prices[asked.body],
            correlation_id=asked.properties.correlation_id,
        ),
    )
    buyer.consume("amq.rabbitmq.reply-to", acks=False)

    for item in prices:
        buyer.publish(queue, item, reply_to="amq.rabbitmq.reply-to", correlation_id=item)
    clients.until(lambda: len(buyer.inbox) >= len(prices))

    got = {answer.properties.correlation_id: answer.body for answer in buyer.inbox}
    output.expect("both replies arrived without a reply queue", got, prices)


def drain(client: DemoClient, queue: str) -> list[str]:
    """Everything in a queue, in order."""
    bodies = []
    while (delivery := client.get(queue)) is not None:
        client.ack(delivery)
        bodies.append(delivery.body)
    return bodies


DELAYS_MS = (("later", 400), ("soon", 150), ("now", 0))
MEASURED = 10_000


def poison(output: DemoOutput, clients: Clients) -> None:
    """Dead letters: a message that always fails leaves its queue"""
    output.remark("One order always makes the worker fail; the queue's delivery limit is 2.")
    shop, worker = clients.connect(), clients.connect()
    dead = shop.queue("dead-letters")
    queue = shop.queue(
        "orders-to-pay",
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead,
        },
    )

    def work(delivery: CollectedMessage) -> None:
        if delivery.body == "poison":
            worker.channel.basic_nack(delivery.tag, requeue=True)
        else:
            worker.ack(delivery)

    worker.consume(queue, prefetch=1, then=work)
    for body in ("good", "poison", "good as well"):
        shop.publish(queue, body)
    clients.until(lambda: shop.ready(dead) > 0 and "good as well" in worker.bodies())

    output.expect("the worker received it three times", worker.bodies().count("poison"), 3)
    output.check("the order behind it was processed", "good as well" in worker.bodies())
    found = shop.get(dead)
    output.check(
        "the failing order is in the dead-letter queue",
        found is not None and found.body == "poison",
    )
    death = _death(found)
    output.say("its x-death header:")
    for name, value in death.items():
        output.say(f"  {name:<13} {value or '(the default exchange)'}")
    cause = (death.get("queue"), death.get("reason"), death.get("count"))
    output.expect("the header names the queue and the reason", cause, (queue, "delivery_limit", 1))


def delayed(output: DemoOutput, clients: Clients) -> None:
    """Delayed messages"""
    output.remark("Three reminders are published at once, each with its own delay.")
    shop, reader = clients.connect(), clients.connect()
    kind = {"x-delayed-type": "fanout"}
    shop.channel.exchange_declare("reminders", "x-delayed-message", durable=True, arguments=kind)
    shop.channel.queue_bind(shop.queue("reminded"), "reminders")
    reader.consume("reminded", acks=False)

    sent: dict[str, float] = {}
    for body, delay in DELAYS_MS:
        sent[body] = time.monotonic()
        shop.publish("", body, exchange="reminders", headers={"x-delay": delay})
    clients.until(lambda: len(reader.inbox) >= len(DELAYS_MS))

    waited = {one.body: round((one.at - sent[one.body]) * 1000) for one in reader.inbox}
    output.expect(
        "they were delivered in the order now, soon, later",
        reader.bodies(),
        ["now", "soon", "later"],
    )
    early = [body for body, delay in DELAYS_MS if waited.get(body, 0) < delay]
    seen = "  ".join(f"{body} {ms} ms" for body, ms in waited.items())
    output.check("none was delivered early (0, 150, 400 ms)", not early, seen)


def expired(output: DemoOutput, clients: Clients) -> None:
    """Expiry"""
    output.remark("An offer expires after 150 ms, and no consumer reads it.")
    shop = clients.connect()
    stale = shop.queue("stale-offers")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stale}
    queue = shop.queue("offers", dead_letters)

    begun = time.monotonic()
    shop.publish(queue, "half price", expiration="150")
    output.expect("the offer is in its queue", shop.ready(queue), 1)
    clients.until(lambda: shop.ready(stale) > 0)
    waited = round((time.monotonic() - begun) * 1000)

    output.check("it left the queue when it expired", shop.ready(queue) == 0, f"{waited} ms")
    reason = _death(shop.get(stale)).get("reason")
    output.expect("it was dead-lettered to stale-offers with reason expired", reason, "expired")


def lost_worker(output: DemoOutput, clients: Clients) -> None:
    """A consumer is killed and another takes over"""
    output.remark("A worker receives ten parcels and is killed.")
    shop = clients.connect()
    queue = shop.queue("shipping")
    parcels = [f"parcel {number}" for number in range(10)]
    for parcel in parcels:
        shop.publish(queue, parcel)

    command = [sys.executable, "-m", "headrace.demo.stuck_worker", clients.url, queue]
    with subprocess.Popen(command, env=own_environment(), stderr=subprocess.DEVNULL) as worker:
        took = clients.until(lambda: shop.ready(queue) == 0, seconds=10)
        output.check("the first worker, a separate process, received all ten", took)
        worker.kill()
    output.say(f"process {worker.pid} was killed before it acknowledged any of them")

    second = clients.connect()
    second.consume(queue, then=second.ack)
    clients.until(lambda: len(second.inbox) >= len(parcels))
    output.expect("the second worker received all ten, in order", second.bodies(), parcels)
    marked = all(delivery.redelivered for delivery in second.inbox)
    output.check("each has the redelivered flag", marked)


def speed(output: DemoOutput, clients: Clients) -> None:
    """Throughput with one pika client"""
    shop, reader = clients.connect(), clients.connect()
    queue = shop.queue("speed")
    body = "x" * 100

    begun = time.monotonic()
    for _ in range(MEASURED):
        shop.publish(queue, body)
    stored = clients.until(lambda: shop.ready(queue) == MEASURED, [shop])
    published = time.monotonic()
    reader.consume(queue, acks=False)
    read = clients.until(lambda: len(reader.inbox) >= MEASURED, [reader], seconds=20)
    done = time.monotonic()

    output.check(f"{MEASURED:,} messages of 100 bytes were published and consumed", stored and read)
    into, out = MEASURED / (published - begun), MEASURED / (done - published)
    output.say(f"measured here: {into:,.0f} messages/s in, {out:,.0f} messages/s out,")
    output.say("limited by the pika client; `headrace bench` measures the broker")


def _death(delivery: CollectedMessage | None) -> dict[str, Any]:
    """The latest entry of a message's x-death header, readable."""
    headers = (delivery.properties.headers or {}) if delivery is not None else {}
    entries = headers.get("x-death") or [{}]
    return {name: _readable(value) for name, value in entries[0].items()}


def _readable(value: object) -> object:
    if isinstance(value, int):
        return int(value)  # pika's own kind of long integer prints as 1L
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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


CHAPTERS = (
    *(routing, fair_sharing, slow_worker, confirms, priorities, answers),
    *(poison, delayed, expired, lost_worker, speed),
)
