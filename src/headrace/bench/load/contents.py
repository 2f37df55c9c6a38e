"""Contents of messages: plain bodies, and task messages as Celery sends them. Constant sizes.

A content is encoded for channel 1: a header frame and its body frames.
"""

from __future__ import annotations

import json
import random
import uuid

from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.properties import HeaderTable, Properties

CELERY_DISTINCT = 2000
VARIED_DISTINCT = 2009  # a multiple of the 41 body sizes, so that a cycle has no seam


def plain(size: int, *, persistent: bool, message_id: str | None = None) -> bytes:
    """A body of `size` bytes with a content type and a delivery mode."""
    properties = Properties("text/plain", delivery_mode=1 + persistent, message_id=message_id)
    return make_content(properties, b"x" * size)


def varied(*, persistent: bool, count: int = VARIED_DISTINCT) -> list[bytes]:
    """Plain messages that differ in body size and message id, and still occupy the same space.

    What the body lacks the id has more, so deliveries can be counted by bytes while no message
    repeats the header of the one before.
    """
    found = []
    for number in range(count):
        size = 80 + number * 7 % 41
        name = f"{number:08d}".ljust(36 + 120 - size, "-")
        found.append(plain(size, persistent=persistent, message_id=name))
    return found


def celery(*, persistent: bool, count: int = CELERY_DISTINCT) -> list[bytes]:
    """Distinct task messages of protocol 2: unique ids, sixteen headers and more, JSON body."""
    source = random.Random(5672)
    return [_task(source, number, persistent=persistent) for number in range(count)]


def _task(source: random.Random, number: int, *, persistent: bool) -> bytes:
    task_id = str(uuid.UUID(int=source.getrandbits(128), version=4))
    positional = [f"invoice-{number:06d}", 1_000_000 + number]
    keywords = {"customer": f"customer-{number:06d}", "language": "en", "copies": 2, "paid": True}
    properties = Properties(
        "application/json",
        "utf-8",
        HeaderTable.of(_task_headers(task_id, positional, keywords)),
        delivery_mode=1 + persistent,
        priority=0,
        correlation_id=task_id,
        reply_to=str(uuid.UUID(int=7, version=4)),
    )
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    note = {"note": "please send by the end of the month, with the usual terms and the signed copy"}
    return make_content(properties, json.dumps([positional, keywords | note, embed]).encode())


def _task_headers(
    task_id: str, positional: list[object], keywords: dict[str, object]
) -> dict[str, object]:
    return {
        "lang": "py",
        "task": "shop.tasks.send_invoice",
        "id": task_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": task_id,
        "parent_id": None,
        "argsrepr": repr(tuple(positional)),
        "kwargsrepr": repr(keywords),
        "origin": "gen12345@worker-host",
        "ignore_result": False,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
