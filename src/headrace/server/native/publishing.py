"""Publishes: from maps to batches in the core. Consecutive messages with one route go together.

A request is checked as a whole before anything of it is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import AccessRefused, CommandInvalid, NotFound, PreconditionFailed
from headrace.model.message import Batch, Route
from headrace.server.inspection import MAX_CACHED, SPECIAL, Inspection
from headrace.server.native.keys import check_routing_key
from headrace.wire.amqp.content import make_frames
from headrace.wire.native.messages import Request, check_length
from headrace.wire.native.properties import Encoder

if TYPE_CHECKING:
    from headrace.server.native.session import Session

HEADER_SPARE = 64  # bytes of a content header's frame besides the properties
ORIGIN = 1  # the channel number in the frames of contents made here


class Resolved(NamedTuple):
    """Where messages with one exchange and key go."""

    route: Route
    by_name: bool  # a key that leads nowhere is the name of a queue that is not there


class Item(NamedTuple):
    """One message of a request, ready for the core."""

    resolved: Resolved
    persistent: bool
    flags: int
    content: bytes


class Publisher:
    """The publishing side of a connection: resolved routes are remembered per connection."""

    __slots__ = ("_encoder", "_epoch", "_inspection", "_routes", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._encoder = Encoder()
        self._inspection = Inspection(session)
        self._routes: dict[tuple[str, str], Resolved] = {}
        self._epoch = -1

    def publish(self, request: Request) -> tuple[list[int], list[int], int]:
        """Queues reached per message, indices of refused ones, where the journal must get to."""
        vhost = self._session.open_vhost
        if self._epoch != vhost.epoch:
            self._routes.clear()
            self._inspection.forget()
            self._epoch = vhost.epoch
        batches = list(self._batches([self._item(one) for one in _messages(request)]))
        routed: list[int] = []
        refused: list[int] = []
        position = 0
        for batch in batches:
            if batch.route.destinations:
                vhost.publish(batch)
                position = max(position, batch.position)
                refused += [len(routed) + index for index in sorted(batch.refused or ())]
            routed += [len(batch.route.destinations)] * len(batch.contents)
        return routed, refused, position

    def _item(self, fields: Mapping[str, Any]) -> Item:
        exchange, key, body = fields.get("exchange") or "", fields.get("key"), fields.get("body")
        if type(exchange) is not str or type(key) is not str:
            raise CommandInvalid("'exchange' and 'key' must be strings")
        if type(body) is not bytes:
            raise CommandInvalid("'body' must be binary")
        limits = self._session.limits
        if len(body) > limits.max_message:
            raise PreconditionFailed(
                f"message size {len(body)} is larger than configured max size {limits.max_message}"
            )
        properties = fields.get("properties")
        if properties is not None and type(properties) is not dict:
            raise CommandInvalid("'properties' must be a map")
        encoded = self._encoder.encode(properties)
        if len(encoded.values) > limits.content_frame_max - HEADER_SPARE:
            # They travel in one AMQP frame, which every consumer must be able to take.
            raise PreconditionFailed("the properties do not fit into one AMQP frame")
        resolved = self._routes.get((exchange, key)) or self._resolve(exchange, key)
        content = make_frames(encoded.header(len(body)), body, ORIGIN, limits.content_frame_max)
        return Item(resolved, encoded.persistent, encoded.flags, content)

    def _resolve(self, name: str, key: str) -> Resolved:
        check_length("exchange", name)
        check_length("key", key)
        session = self._session
        vhost = session.open_vhost
        session.check("write", "exchange", name)
        exchange = vhost.get_exchange(name)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'"
            )
        if exchange.router.kind == "topic":
            check_routing_key(key)
        resolved = Resolved(vhost.route(name, key), not name or exchange.direct_to_queue)
        if len(self._routes) >= MAX_CACHED:
            self._routes.clear()
        self._routes[name, key] = resolved
        return resolved

    def _batches(self, items: list[Item]) -> Iterator[Batch]:
        for (resolved, persistent), run in groupby(items, key=lambda item: item[:2]):
            flags, contents, size = 0, [], 0
            for item in run:
                flags |= item.flags
                contents.append(item.content)
                size += len(item.content)
            route = resolved.route
            if not flags & SPECIAL and not route.by_headers:
                plain = Batch(route, contents, size, origin=ORIGIN, persistent=persistent)
                yield self._checked(plain, resolved)
                continue
            for batch in self._inspection.batches(
                route,
                flags,
                contents,
                size,
                number=ORIGIN,
                persistent=persistent,
                reply_name=None,
            ):
                yield self._checked(batch, resolved)

    def _checked(self, batch: Batch, resolved: Resolved) -> Batch:
        if resolved.by_name and not batch.route.destinations:
            vhost = self._session.open_vhost
            raise NotFound(f"no queue '{batch.route.key}' in vhost '{vhost.name}'")
        return batch


def _messages(request: Request) -> list[Mapping[str, Any]]:
    batch = request.fields.get("batch")
    if batch is None:
        return [request.fields]
    if type(batch) is not list or not all(type(one) is dict for one in batch):
        raise CommandInvalid("'batch' must be an array of maps")
    return batch
