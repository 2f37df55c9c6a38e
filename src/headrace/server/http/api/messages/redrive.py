"""POST /api/queues/V/Q/move: messages from the head of a queue to somewhere else, none lost.

A message leaves its queue and arrives in one step of the log: after a crash it is in the one
place or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, HttpRefused, PreconditionFailed
from headrace.model.message import PublishedRun
from headrace.model.message import Route as Way
from headrace.model.unacked import SettledRange
from headrace.server.http import replies
from headrace.server.http.api.messages.dead_letters import death_of
from headrace.server.http.api.messages.get import take
from headrace.server.http.api_request import ApiRequest, exchange_named
from headrace.server.http.durability import until_durable, until_taken
from headrace.server.http.message_json import read_payload, read_properties
from headrace.server.http.router import ENTERS_VHOST, ApiRoutes
from headrace.wire.amqp.content import body_of, make_content, properties_of, with_properties
from headrace.wire.amqp.properties import Properties, user_id

ROUTES = ApiRoutes()

MAX_COUNT = 10_000
SLICE = 100
HISTORY = ("x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason")


@dataclass(frozen=True, slots=True)
class _RedriveTarget:
    """Where the messages go: a queue, an exchange, or back where each of them died first."""

    vhost: Vhost
    queue: str | None = None
    exchange: str | None = None
    key: str | None = None  # None: each message keeps its own

    def key_of(self, key: str) -> str:
        """The routing key of a message that came with ``key``."""
        return self.key if self.key is not None else key

    def check(self, call: ApiRequest, key: str) -> None:
        """Raise AccessRefused unless the caller may publish with the key of this message."""
        if self.exchange is not None:
            call.check_key("write", self.vhost, self.exchange, self.key_of(key))

    def way(self, content: bytes, key: str, before: bytes) -> Way | None:
        """The route of one message, None when there is no place for it; ``before`` an edit."""
        if self.exchange is not None:
            headers = properties_of(content).headers
            found = self.vhost.routes.find(
                self.exchange,
                [self.key_of(key)],
                headers.as_dict() if headers is not None else {},
            )
            return found if found.destinations else None
        name = self.queue if self.queue is not None else _first_queue(before)
        queue = self.vhost.queues.get(name or "")
        return Way("", queue.name, [queue]) if queue is not None else None


def _first_queue(content: bytes) -> str | None:
    headers = properties_of(content).headers
    name = headers.get("x-first-death-queue") if headers is not None else None
    return name if isinstance(name, str) else None


def _destination(call: ApiRequest, source: Queue) -> _RedriveTarget:
    given = call.value("destination", dict)
    name = given.get("vhost", source.services.name)
    exchange, queue, key = given.get("exchange"), given.get("queue"), given.get("routing_key")
    for one in (name, exchange, queue, key):
        if one is not None and not isinstance(one, str):
            raise replies.bad_request("vhost, exchange, queue and routing_key are strings")
    vhost = call.broker.vhosts.get(name)
    if vhost is None:
        raise replies.not_found()
    if exchange is not None:
        found = call.open_exchange(vhost, exchange_named(exchange))
        return _RedriveTarget(vhost, exchange=found.name, key=key)
    if queue is None and given.get("origin") is not True:
        raise replies.bad_request("destination needs 'queue', 'exchange' or 'origin': true")
    call.user.check(vhost.name, "write", "exchange", "")
    if queue is not None:
        vhost.get_queue_for(queue, None)
        if vhost.name == source.services.name and queue == source.name:
            raise replies.bad_request("source and destination are the same queue")
    return _RedriveTarget(vhost, queue=queue)


def _edited(content: bytes, edit: Mapping[str, Any] | None, *, drop_history: bool) -> bytes:
    """The message with what the caller changed in it."""
    properties = properties_of(content)
    if edit is not None:
        if "properties" in edit:
            properties = read_properties(edit["properties"])
        body = read_payload(edit) if "payload" in edit else body_of(content)
        content = make_content(properties, body, 1)
    if drop_history and properties.headers is not None:
        content = with_properties(content, _without_history(properties))
    return content


def _check_author(call: ApiRequest, before: bytes, content: bytes) -> None:
    """A message keeps the user who sent it; an edit may name the editor only."""
    name = user_id(content)
    if name is None or name in (call.user.name, user_id(before)):
        return
    if "impersonator" not in call.user.tags:
        raise PreconditionFailed(
            f"user_id property set to '{name}' but authenticated user was '{call.user.name}'"
        )


def _without_history(properties: Properties) -> Properties:
    headers = properties.headers
    assert headers is not None
    headers = headers.copy()
    for name in HISTORY:
        headers.remove(name)
    properties.headers = headers if len(headers) else None
    return properties


async def _move_one(
    source: Queue, part: SettledRange[Consumer], to: _RedriveTarget, content: bytes
) -> int | None:
    """Move a message that was taken; its position in the log, None when it has no place."""
    way = to.way(content, part.run.route.key, part.run.contents[0])
    if way is None:
        return None
    batch = PublishedRun(
        way,
        [content],
        len(content),
        channel_number=part.run.channel_number,
        persistent=properties_of(content).delivery_mode == 2,
    )
    with source.services.storage.atomic():
        if not to.vhost.publish(batch):
            return None
        if batch.engine_confirms is None:
            source.acknowledge(part)
    if batch.engine_confirms is not None:  # another engine: first there, then gone here
        if not await until_taken(batch.engine_confirms):
            return None
        source.acknowledge(part)
    return batch.position


def _cause(call: ApiRequest, source: Queue) -> dict[str, str] | None:
    """Only messages whose last death was this one; what is not given may be anything."""
    given = call.value("cause", dict, None)
    if given is None:
        return None
    names = {"died_in": "queue", "reason": "reason", "exchange": "exchange"}
    if not given.keys() <= names.keys() or not all(isinstance(one, str) for one in given.values()):
        raise replies.bad_request("'cause' has strings: died_in, reason, exchange")
    if source.settings.delivery_limit is not None:
        # To be passed over counts as a delivery, and too many of them end in another queue.
        raise replies.bad_request("a queue with a delivery limit cannot be moved by cause")
    return {names[key]: one for key, one in given.items()}


class _HeadScan:
    """Messages from the head that fit; the others return to their places."""

    def __init__(self, source: Queue, cause: dict[str, str] | None) -> None:
        self._source = source
        self._cause = cause
        self._aside: list[SettledRange[Consumer]] = []

    def next(self) -> SettledRange[Consumer] | None:
        while len(self._aside) < MAX_COUNT:
            taken = take(self._source, 1)
            if not taken:
                return None
            if self._fits(taken[0].run.contents[0]):
                return taken[0]
            self._aside += taken
        return None

    def _fits(self, content: bytes) -> bool:
        if self._cause is None:
            return True
        death = death_of(content)
        return death is not None and self._cause.items() <= death.items()

    def close(self) -> None:
        if self._aside:
            self._source.requeue(self._aside)
            self._aside = []


@ROUTES.post("/api/queues/{vhost}/{name}/move", ENTERS_VHOST,
    "Move messages from the head of a queue to a queue, an exchange or their original queue",
    {"destination": "object", "count": "integer", "first_offset": "integer", "edit": "object",
     "drop_history": "boolean", "cause": "object"})  # fmt: skip
async def _move(call: ApiRequest) -> object:
    source = call.free_queue()
    call.check("read", "queue", source.name)
    to = _destination(call, source)
    count = call.value("count", int, source.backlog.count)
    edit = call.value("edit", dict, None)
    if count < 0 or (edit is not None and count != 1):
        raise replies.bad_request("count must not be negative, and 1 when there is an edit")
    taking = _HeadScan(source, _cause(call, source))
    try:
        moved, stuck = await _moved(call, taking, to, min(count, MAX_COUNT))
    finally:
        taking.close()
    return {"moved": moved, "left": source.backlog.count, "stopped": stuck}


async def _moved(
    call: ApiRequest, taking: _HeadScan, to: _RedriveTarget, count: int
) -> tuple[int, str | None]:
    """How many were moved, and why it ended early."""
    source = call.free_queue()
    expected = call.value("first_offset", int, None)
    edit, drop_history = call.value("edit", dict, None), call.boolean("drop_history", False)
    moved, position, stuck = 0, 0, None
    while moved < count and (taken := taking.next()) is not None:
        if expected is not None and taken.run.offsets[0] != expected:
            source.requeue([taken])
            raise HttpRefused("the queue has another message at its head now", 409, "changed")
        expected = None
        try:
            to.check(call, taken.run.route.key)
            content = _edited(taken.run.contents[0], edit, drop_history=drop_history)
            _check_author(call, taken.run.contents[0], content)
            at = await _move_one(source, taken, to, content)
        except BrokerError as error:
            source.requeue([taken])  # it was taken: without this it would be lost
            if not moved:
                raise
            stuck = str(error)
            break
        if at is None:
            source.requeue([taken])
            stuck = "the destination did not take the next message; it stays where it is"
            break
        moved += 1
        position = max(position, at)
        if moved % SLICE == 0:
            await until_durable(call.broker, position)
    await until_durable(call.broker, position)
    return moved, stuck
