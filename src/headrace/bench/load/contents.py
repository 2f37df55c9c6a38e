"""Contents of messages: plain bodies, and task messages as Celery sends them. Constant sizes."""

from __future__ import annotations

import json
import random
import struct
import uuid
from dataclasses import dataclass

from headrace.bench.load import frames

CELERY_DISTINCT = 2000
VARIED_DISTINCT = 2009  # a multiple of the 41 body sizes, so that a cycle has no seam
_FLAGS_PLAIN = 0x9000  # content-type, delivery-mode
_FLAGS_CELERY = 0xFE00  # type, encoding, headers, mode, priority, correlation-id, reply-to


@dataclass(frozen=True, slots=True)
class Content:
    """Encoded properties (flags word and values) and the body."""

    properties: bytes
    body: bytes


def plain(size: int, *, persistent: bool) -> Content:
    """A body of `size` bytes with a content type and a delivery mode."""
    mode = bytes((2 if persistent else 1,))
    properties = struct.pack(">H", _FLAGS_PLAIN) + frames.short("text/plain") + mode
    return Content(properties, b"x" * size)


def varied(*, persistent: bool, count: int = VARIED_DISTINCT) -> list[Content]:
    """Plain messages that differ in body size and message id, and still occupy the same space.

    What the body lacks the id has more, so deliveries can be counted by bytes while no message
    repeats the header of the one before.
    """
    mode = bytes((2 if persistent else 1,))
    head = struct.pack(">H", _FLAGS_PLAIN | 0x0080) + frames.short("text/plain") + mode
    found = []
    for number in range(count):
        size = 80 + number * 7 % 41
        name = f"{number:08d}".ljust(36 + 120 - size, "-")
        found.append(Content(head + frames.short(name), b"x" * size))
    return found


def celery(*, persistent: bool, count: int = CELERY_DISTINCT) -> list[Content]:
    """Distinct task messages of protocol 2: unique ids, sixteen headers and more, JSON body."""
    source = random.Random(5672)
    return [_task(source, number, persistent=persistent) for number in range(count)]


def _task(source: random.Random, number: int, *, persistent: bool) -> Content:
    task_id = str(uuid.UUID(int=source.getrandbits(128), version=4))
    positional = [f"invoice-{number:06d}", 1_000_000 + number]
    keywords = {"customer": f"customer-{number:06d}", "language": "en", "copies": 2, "paid": True}
    properties = b"".join(
        (
            struct.pack(">H", _FLAGS_CELERY),
            frames.short("application/json"),
            frames.short("utf-8"),
            frames.table(_task_headers(task_id, positional, keywords)),
            bytes((2 if persistent else 1, 0)),
            frames.short(task_id),
            frames.short(str(uuid.UUID(int=7, version=4))),
        )
    )
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    note = {"note": "please send by the end of the month, with the usual terms and the signed copy"}
    body = json.dumps([positional, keywords | note, embed]).encode()
    return Content(properties, body)


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
