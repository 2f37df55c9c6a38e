"""POST /api/queues/V/Q/get: taking messages, as a client with basic.get would."""

from __future__ import annotations

from typing import Any

from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.model.message import Run
from headrace.model.unacked import SettledRange
from headrace.server.http import message_json, replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ENTERS_VHOST, ApiRoutes
from headrace.wire.amqp.content import with_delivery_count

ROUTES = ApiRoutes()

MAX_GET = 10_000
MAX_GET_BYTES = 64 << 20
_ACKMODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true",
             "reject_requeue_false")  # fmt: skip


class DetachedChannel:
    """For calls that need a channel: never subscribed, so never called."""

    connection: object = None

    def room(self, consumer: Consumer) -> int:
        return 0

    def deliver(self, consumer: Consumer, run: Run) -> None:
        raise AssertionError("a detached channel has no subscription to deliver to")

    def cancelled(self, consumer: Consumer) -> None:
        pass


def take(queue: Queue, count: int, max_bytes: int = MAX_GET_BYTES) -> list[SettledRange[Consumer]]:
    """Up to ``count`` messages from the head, as deliveries that wait to be settled."""
    taker = Consumer(queue, DetachedChannel(), "")
    taken: list[SettledRange[Consumer]] = []
    size = 0
    while len(taken) < count and size < max_bytes and (run := queue.take_one()) is not None:
        queue.delivered(taker, run, 1)
        taken.append(SettledRange(taker, run, 0, 1))
        size += len(run.contents[0])
    return taken


def _settle(queue: Queue, taken: list[SettledRange[Consumer]], ackmode: str) -> None:
    if ackmode.endswith("requeue_true"):
        queue.requeue(taken)
    elif ackmode == "reject_requeue_false":
        queue.reject(taken)
    else:
        for part in taken:
            queue.acknowledge(part)


@ROUTES.post("/api/queues/{vhost}/{name}/get", ENTERS_VHOST,
    "Get messages; ackmode decides whether they are requeued, removed or dead-lettered",
    {"count": "integer", "ackmode": "string", "encoding": "string",
     "truncate": "integer"})  # fmt: skip
async def _get(call: ApiRequest) -> object:
    body = call.json()
    ackmode_given = () if "requeue" in body else ("ackmode",)
    replies.require(body, "count", "encoding", *ackmode_given)
    count, encoding = _count(body["count"]), body["encoding"]
    ackmode = body.get("ackmode")
    if not ackmode:  # what clients sent before RabbitMQ 3.7
        ackmode = "ack_requeue_true" if body["requeue"] in (True, "true") else "ack_requeue_false"
    if ackmode not in _ACKMODES or encoding not in ("auto", "base64"):
        raise replies.bad_request(
            f"ackmode must be one of {', '.join(_ACKMODES)}, encoding auto or base64"
        )
    truncate = _count(body["truncate"]) if body.get("truncate") is not None else None
    queue = call.free_queue()
    call.check("read", "queue", queue.name)
    taken = take(queue, min(count, MAX_GET))
    try:
        left = queue.backlog.count + len(taken)
        rows = [
            {**_row(queue, part.run, encoding, truncate), "message_count": left - index}
            for index, part in enumerate(taken, 1)
        ]
    finally:
        _settle(queue, taken, ackmode)
    return rows


def _count(given: object) -> int:
    text = str(given)
    if isinstance(given, bool) or not text.isascii() or not text.isdigit() or len(text) > 9:
        raise replies.bad_request("count and truncate are whole numbers")
    return int(text)


def _row(queue: Queue, run: Run, encoding: str, truncate: int | None) -> dict[str, Any]:
    content = run.contents[0]
    if queue.settings.queue_type == "quorum":
        content = with_delivery_count([content], run.deliveries)[0]
    row = message_json.shown(content, encoding=encoding, truncate=truncate)
    return {
        "redelivered": run.deliveries > 0,
        "exchange": run.route.exchange,
        "routing_key": run.route.key,
        **row,
    }
