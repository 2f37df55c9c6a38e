"""GET /api/queues/V/Q/browse: looking at messages without taking them or marking them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from headrace.core.queues.queue import Queue
from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.model.message import PAGED_OUT
from headrace.server.http import message_json, replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ENTERS_VHOST, ApiRoutes

ROUTES = ApiRoutes()

DEFAULT_COUNT = 20
MAX_COUNT = 200
MAX_PAYLOAD = 64 << 10  # of one message, unless more is asked for
READ_BYTES = 1 << 20


class BrowsedMessage(NamedTuple):
    """A message at its place in the queue."""

    offset: int
    exchange: str
    key: str
    deliveries: int
    content: bytes
    stored_at: int | None = None  # ms since 1970, when it comes from the log


def look(queue: Queue, start: int, count: int) -> list[BrowsedMessage]:
    """Ready messages from an offset on, by offset."""
    queue.dispatch()
    backlog = queue.backlog
    levels = backlog.levels if isinstance(backlog, PriorityBacklog) else [backlog]
    for level in levels:
        level.head()  # brings something into memory when all of it is elsewhere
    resident = heapq.merge(*(_resident(level, start) for level in levels))
    seen = list(islice(resident, count))
    if len(seen) < count and queue.backlog.paged_out[0] and len(levels) == 1:
        behind = max(start, levels[0].ready[-1].offsets[-1] + 1 if levels[0].ready else start)
        seen += islice(stored(queue, behind, settled=False), count - len(seen))
    return seen


def _resident(backlog: Backlog, start: int) -> Iterator[BrowsedMessage]:
    for run in backlog.runs():
        if run.contents is PAGED_OUT or run.offsets[-1] < start:
            continue
        route = run.route
        for index in range(run.start, len(run.offsets)):
            offset = run.offsets[index]
            if offset >= start:
                content = run.contents[index]
                yield BrowsedMessage(offset, route.exchange, route.key, run.deliveries, content)


def stored(queue: Queue, start: int, *, settled: bool) -> Iterator[BrowsedMessage]:
    """Messages from the log; with ``settled`` also those that retention still keeps."""
    log = queue.services.storage.log
    if log is None or queue.number is None:
        return
    while start < queue.next_offset:
        found, start = log.reads.read(
            queue.number, start, queue.next_offset, max_bytes=READ_BYTES, with_settled=settled
        )
        for one in found:
            for offset, content in zip(one.offsets, one.contents, strict=True):
                yield BrowsedMessage(
                    offset, one.exchange, one.key, one.deliveries, content, one.time
                )


def seen_row(one: BrowsedMessage, truncate: int = MAX_PAYLOAD) -> dict[str, Any]:
    row = message_json.shown(one.content, truncate=truncate)
    return {
        "offset": one.offset,
        "exchange": one.exchange,
        "routing_key": one.key,
        "redelivered": one.deliveries > 0,
        "deliveries": one.deliveries,
        "stored_at": one.stored_at,
        **row,
    }


@ROUTES.get("/api/queues/{vhost}/{name}/browse", ENTERS_VHOST,
    "Browse messages without consuming them or marking them as redelivered",
    query={"offset": "integer", "count": "integer", "truncate": "integer",
           "settled": "boolean"})  # fmt: skip
async def _browse(call: ApiRequest) -> object:
    queue = call.free_queue()
    call.check("read", "queue", queue.name)
    start, count = call.number("offset") or 0, call.number("count") or DEFAULT_COUNT
    truncate = call.number("truncate")
    if not 1 <= count <= MAX_COUNT:
        raise replies.bad_request(f"count must be from 1 to {MAX_COUNT}")
    if call.flag("settled"):
        seen = list(islice(stored(queue, start, settled=True), count))
    else:
        seen = look(queue, start, count)
    size = MAX_PAYLOAD if truncate is None else truncate
    return {
        "items": [seen_row(one, size) for one in seen],
        "next_offset": seen[-1].offset + 1 if len(seen) == count else None,
        "messages_ready": queue.backlog.count,
        "messages_unacknowledged": queue.unacked,
    }
