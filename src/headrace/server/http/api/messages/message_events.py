"""GET /api/queues/V/Q/events: history of one message, from the topic `$events`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from operator import itemgetter

from headrace.core.message_events import TOPIC
from headrace.core.queues.queue import Queue
from headrace.core.topics.log_topic import LogTopic
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row
from headrace.server.http.router import ENTERS_VHOST, ApiRoutes
from headrace.store.topics.entry import decode_entry
from headrace.store.topics.reads import LoadedEntries

ROUTES = ApiRoutes()

MAX_ENTRIES = 100_000  # looked at for one answer, about a second of work
READ_BYTES = 1 << 20


def _fates(queue: Queue, offset: int, loaded: LoadedEntries) -> Iterator[tuple[int, Row]]:
    """Events of this message: most are of other queues and are not even parsed."""
    key = queue.name[:255]
    for content in loaded.contents:
        entry = decode_entry(content)
        if entry.key != key:
            continue
        event = json.loads(entry.body)
        if event["uuid"] != queue.uuid:
            continue  # of another queue that had this name
        for one in event["ranges"]:
            if one["first"] <= offset <= one["last"]:
                at = event["time"]
                yield at, {"kind": event["kind"], "time": at, "consumer": one["consumer"]}


async def _look(
    topic: LogTopic, queue: Queue, offset: int, since_ms: int
) -> tuple[list[Row], bool]:
    """Events of the message, oldest first, and whether the whole topic was read."""
    found: list[tuple[int, Row]] = []
    looked = 0
    for track, bound in topic.bounds().items():
        at = max(bound.first, topic.offset_at(track, since_ms))
        while at < bound.end:
            if looked >= MAX_ENTRIES:
                return _ordered(found), False
            loaded, at = topic.load(track, at, bound.end, READ_BYTES)
            for one in loaded:
                looked += len(one.offsets)
                found += _fates(queue, offset, one)
            await asyncio.sleep(0)
    return _ordered(found), True


def _ordered(found: list[tuple[int, Row]]) -> list[Row]:
    return [row for _, row in sorted(found, key=itemgetter(0))]


@ROUTES.get("/api/queues/{vhost}/{name}/events", ENTERS_VHOST,
    "History of one message; needs `headrace serve --events`",
    query={"offset": "integer", "since_ms": "integer"})  # fmt: skip
async def _events(call: ApiRequest) -> object:
    queue = call.free_queue()
    call.check("read", "queue", queue.name)
    offset = call.number("offset")
    if offset is None:
        raise replies.bad_request("'offset' says which message")
    since_ms = int(call.query["since_ms"]) if call.query.get("since_ms", "").isdigit() else 0
    topic = call.vhost.topics.log.by_name.get(TOPIC)
    events, whole = ([], True) if topic is None else await _look(topic, queue, offset, since_ms)
    return {"noted": call.vhost.events.on, "events": events, "whole": whole}
