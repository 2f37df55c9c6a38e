"""Second half of the demo: failures, delays and expiry; and how fast it all was."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from headrace.demo.clients import Clients, CollectedMessage
from headrace.demo.output import DemoOutput
from headrace.testing.broker_process import own_environment

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


CHAPTERS = (poison, delayed, expired, lost_worker, speed)
