"""GET /api/rows: stored messages of a queue or topic as one Arrow stream, for other programs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from headrace.bulk.fetch_pool import FrameRelay
from headrace.bulk.read_plan import FetchRequest, ReadPlan
from headrace.errors import NotFound, StoreError, Unsupported
from headrace.server.bulk_plan import columns_of, lent, log_of, plan_of, source_of
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.router import ENTERS_VHOST, ApiRoutes
from headrace.store.api.message_log import SegmentFile
from headrace.wire.native.frames import HEAD
from headrace.wire.native.payloads import Op, Request, unpack_trusted

ROUTES = ApiRoutes()

ARROW = "application/vnd.apache.arrow.stream"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream
_AHEAD = 4 << 20  # bytes that wait to be sent
_ALL = 1 << 62


class _Frames:
    """Frames of one order, as they arrive."""

    def __init__(self) -> None:
        self._waiting: deque[bytes | bytearray] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._ended: str | None = None

    def take_fetched(self, frame: bytes | bytearray, relay: FrameRelay) -> None:
        self._waiting.append(frame)
        self._bytes += len(frame)
        if self._bytes > _AHEAD:
            relay.pause()
        self._changed.set()

    def fetch_ended(self, relay: FrameRelay, order: FetchRequest, error: str | None) -> None:
        self._ended = error or "the fetch has ended"
        self._changed.set()

    async def next(self, relay: FrameRelay) -> dict[str, Any]:
        while not self._waiting:
            if self._ended is not None:
                raise StoreError(self._ended)
            self._changed.clear()
            await self._changed.wait()
        frame = self._waiting.popleft()
        self._bytes -= len(frame)
        if self._bytes <= _AHEAD:
            relay.mark()
        fields = unpack_trusted(bytes(memoryview(frame)[HEAD.size :]))
        if not fields["ok"]:
            raise StoreError(fields["text"])
        return fields


@ROUTES.get("/api/rows/{vhost}/{name}", ENTERS_VHOST,
    "Stored messages of a queue or topic as an Arrow stream",
    query={"kind": "string", "partition": "integer", "start": "integer", "end": "integer",
           "limit": "integer", "columns": "string"})  # fmt: skip
async def _rows(call: ApiRequest) -> replies.Reply:
    kind = _kind(call)
    fields: dict[str, Any] = {"rid": 0, "ch": 0, kind: call.name}
    if call.query.get("columns"):
        fields["columns"] = call.query["columns"].split(",")
    held, _ = source_of(call, Request(Op.FETCH, fields))
    fields["uuid"] = held.uuid
    start, end, partition = call.number("start"), call.number("end"), call.number("partition")
    limit = call.number("limit")
    if limit == 0:
        raise replies.bad_request("'limit' must be at least 1")
    if partition is not None and partition not in held.numbers:
        raise NotFound(f"{kind} '{held.name}' has no partition {partition}")
    storage = call.broker.storage
    synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    storage.when_synced(lambda: None if synced.done() else synced.set_result(None))
    await synced  # what weaker levels have confirmed
    tasks = []
    for one, number in sorted(held.numbers.items()):
        if partition in (None, one):
            known = log_of(call).reads.readable_range(number, storage.synced)
            stop = known.end if end is None else min(end, known.end)
            begin = known.first if start is None else start
            tasks.append({**fields, "partition": one, "start": min(begin, stop), "end": stop})
    offsets = sum(one["end"] - one["start"] for one in tasks)
    columns = columns_of(Request(Op.FETCH, fields))
    schema = ReadPlan(kind, held.name, 0, "", columns, 0, ())
    stream = _stream(call, tasks, schema, limit or _ALL)
    first = await anext(stream)  # raises before the answer has begun
    headers = {"x-headrace-offsets": str(offsets)}
    if call.method == "HEAD":
        await stream.aclose()
        return replies.Reply(200, b"", ARROW, headers)
    return replies.Reply(200, _begun(first, stream), ARROW, headers)


def _kind(call: ApiRequest) -> str:
    """Whether the name is that of a queue or of a topic."""
    kind = call.query.get("kind")
    if kind not in (None, "queue", "topic"):
        raise replies.bad_request("'kind' must be queue or topic")
    vhost = call.vhost
    is_queue, is_topic = call.name in vhost.queues, call.name in vhost.topics.names()
    if kind is None and is_queue and is_topic:
        raise replies.bad_request("there is a queue and a topic with this name: add kind=queue")
    if kind is None and not is_queue and not is_topic:
        raise replies.not_found()
    kind = kind or ("queue" if is_queue else "topic")
    if kind == "topic":
        call.topic_engine("read")
        if call.name not in vhost.topics.log.by_name:
            raise Unsupported("the topic is in a database, and cannot be read as an Arrow stream")
    return kind


async def _begun(first: bytes, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        yield first
        async for one in stream:
            yield one
    finally:
        await stream.aclose()


async def _stream(
    call: ApiRequest, tasks: list[dict[str, Any]], schema: ReadPlan, left: int
) -> AsyncGenerator[bytes, None]:
    """Each turn plans one fetch, and checks the permission again."""
    async with aclosing(_fetched(call, schema, [], (True, left))) as frames:
        async for fields in frames:
            yield fields["data"]
    for task in tasks:
        while left and task["start"] < task["end"]:
            call.user = call.broker.users.user(call.user.name)  # with the rights of the moment
            plan, segments = plan_of(call, Request(Op.FETCH, task))
            async with aclosing(_fetched(call, plan, segments, (False, left))) as frames:
                async for fields in frames:
                    left -= fields["rows"]
                    yield fields["data"]
            task["start"] = plan.next
    yield _END


async def _fetched(
    call: ApiRequest, plan: ReadPlan, segments: Sequence[SegmentFile], part: tuple[bool, int]
) -> AsyncGenerator[dict[str, Any], None]:
    frames = _Frames()
    with lent(segments) as files:
        relay = call.management.fetches.fetch(
            FetchRequest(0, 0, plan, Op.FETCH, part), files, frames
        )
    try:
        while not (fields := await frames.next(relay))["last"]:
            yield fields
    finally:
        relay.abort()
