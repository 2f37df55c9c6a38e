"""Publishes orders of an imaginary shop: python make_orders.py [COUNT] [--late].

They are always the same. One in a hundred is no order at all, so that there is something in the
table of bad records. With --late they are orders that come when their minute is long over.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

from headrace.client import ConnectionFactory

SHOPS = ("Berlin", "Lagos", "Lima", "Osaka")
CUSTOMERS = 40
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
BAD = (b"{ cut off", b'{"id": "seven"}', b'{"shop": "nowhere"}', b"\xff\xfe")


def orders(count: int, seed: int = 7) -> Iterator[bytes]:
    """The bodies; a pure function of its arguments."""
    chance = random.Random(seed)
    at = BEGIN
    for number in range(count):
        at += timedelta(milliseconds=chance.randrange(2000))
        if number % 100 == 99:
            yield BAD[number // 100 % len(BAD)]
            continue
        order = {
            "id": number,
            "customer": chance.randrange(CUSTOMERS + 5),  # some are strangers
            "shop": chance.choice(SHOPS),
            "amount": chance.randrange(100, 100_000) / 100,
            "ordered_at": (at - timedelta(seconds=chance.randrange(30))).isoformat(),
        }
        yield json.dumps(order).encode()


def late_orders(count: int, seed: int = 8) -> Iterator[bytes]:
    """Orders of the first five minutes; they come last."""
    chance = random.Random(seed)
    for number in range(count):
        order = {
            "id": 1_000_000 + number,
            "customer": chance.randrange(CUSTOMERS),
            "shop": chance.choice(SHOPS),
            "amount": 1.0,
            "ordered_at": (BEGIN + timedelta(seconds=chance.randrange(300))).isoformat(),
        }
        yield json.dumps(order).encode()


def publish(url: str, bodies: Iterator[bytes], queue: str = "orders") -> int:
    """Into a durable queue, each message confirmed; returns how many."""
    parts = urlsplit(url)
    factory = ConnectionFactory(
        parts.hostname or "127.0.0.1",
        parts.port or 9090,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
    )
    with factory.new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare(queue, durable=True)
        return len(
            channel.publish_batch(("", queue, {"delivery_mode": 2}, body) for body in bodies)
        )


if __name__ == "__main__":
    given = sys.argv[1:]
    wanted = next((int(one) for one in given if one.isdigit()), 2000)
    made = late_orders(wanted) if "--late" in given else orders(wanted)
    broker = os.environ.get("HEADRACE_URL", "headrace://guest:guest@127.0.0.1:9090/")
    sys.stdout.write(f"published {publish(broker, made)} messages\n")
