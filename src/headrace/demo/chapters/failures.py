"""Second half of the demo: failures, delays and expiry; and how fast it all was."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from headrace.demo.broker import environment
from headrace.demo.clients import Clients, CollectedMessage
from headrace.demo.output import DemoOutput

DELAYS_MS = (("later", 400), ("soon", 150), ("now", 0))
MEASURED = 10_000


def poison(output: DemoOutput, clients: Clients) -> None:
    """Dead letters: a message that always fails leaves its queue"""
    output.remark("One order makes the worker fail, again and again. The queue allows two returns.")
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

    output.expect("the worker refused it three times", worker.bodies().count("poison"), 3)
    output.check("the order behind it was not held up", "good as well" in worker.bodies())
    found = shop.get(dead)
    output.check(
        "then it was in the dead-letter queue", found is not None and found.body == "poison"
    )
    death = _death(found)
    output.say("its x-death header:")
    for name, value in death.items():
        output.say(f"  {name:<13} {value or '(the default one)'}")
    cause = (death.get("queue"), death.get("reason"), death.get("count"))
    output.expect("x-death has queue and reason", cause, (queue, "delivery_limit", 1))


def delayed(output: DemoOutput, clients: Clients) -> None:
    """Delayed messages"""
    output.remark("Three reminders are sent at once, each with a time to wait.")
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
    output.expect("they arrived as now, soon, later", reader.bodies(), ["now", "soon", "later"])
    early = [body for body, delay in DELAYS_MS if waited.get(body, 0) < delay]
    seen = "  ".join(f"{body} {ms} ms" for body, ms in waited.items())
    output.check("none before its time (0, 150, 400 ms)", not early, seen)


def expired(output: DemoOutput, clients: Clients) -> None:
    """Expiry"""
    output.remark("An offer is good for 150 ms, and no consumer reads it.")
    shop = clients.connect()
    stale = shop.queue("stale-offers")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stale}
    queue = shop.queue("offers", dead_letters)

    begun = time.monotonic()
    shop.publish(queue, "half price", expiration="150")
    output.expect("the offer waits in its queue", shop.ready(queue), 1)
    clients.until(lambda: shop.ready(stale) > 0)
    waited = round((time.monotonic() - begun) * 1000)

    output.check("after its 150 ms it was gone from there", shop.ready(queue) == 0, f"{waited} ms")
    reason = _death(shop.get(stale)).get("reason")
    output.expect("and went to the stale offers, as expired", reason, "expired")


def lost_worker(output: DemoOutput, clients: Clients) -> None:
    """A consumer is killed and another takes over"""
    output.remark("Ten parcels are handed to a worker, which is then killed.")
    shop = clients.connect()
    queue = shop.queue("shipping")
    parcels = [f"parcel {number}" for number in range(10)]
    for parcel in parcels:
        shop.publish(queue, parcel)

    command = [sys.executable, "-m", "headrace.demo.stuck_worker", clients.url, queue]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as worker:
        took = clients.until(lambda: shop.ready(queue) == 0, seconds=10)
        output.check("the first worker, a process of its own, took all ten", took)
        worker.kill()
    output.say(f"its process {worker.pid} was killed before it acknowledged anything")

    second = clients.connect()
    second.consume(queue, then=second.ack)
    clients.until(lambda: len(second.inbox) >= len(parcels))
    output.expect("the second worker got all ten, in order", second.bodies(), parcels)
    marked = all(delivery.redelivered for delivery in second.inbox)
    output.check("each marked as delivered before", marked)


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

    output.check(f"{MEASURED:,} messages of 100 bytes went in and came out", stored and read)
    into, out = MEASURED / (published - begun), MEASURED / (done - published)
    output.say(f"measured here: {into:,.0f} messages/s in, {out:,.0f} messages/s out,")
    output.say("with one pika client, which sets the pace: see `headrace bench`")


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
