"""Publishes: from maps to batches in the core. Consecutive messages with one route go together.

A request is checked as a whole before anything of it is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.cache import BoundedCache
from headrace.core.publication import Publication
from headrace.core.topics.engine_confirms import EngineConfirms
from headrace.errors import AccessRefused, CommandInvalid, NotFound, PreconditionFailed
from headrace.model.message import PublishedRun, Route
from headrace.server.native.checks import check_routing_key
from headrace.server.publish_inspection import MAX_CACHED, PublishInspection
from headrace.wire.amqp.content import make_frames
from headrace.wire.native.payloads import Request, check_length
from headrace.wire.native.properties import EncodedProperties, PropertyEncoder

if TYPE_CHECKING:
    from headrace.server.native.session import Session

HEADER_SPARE = 64  # bytes of a content header's frame besides the properties
CHANNEL_NUMBER = 1  # the channel number in the frames of contents made here


class ResolvedRoute(NamedTuple):
    """Where messages with one exchange and key go."""

    route: Route
    by_name: bool  # a key that leads nowhere is the name of a queue that is not there


@dataclass(slots=True)
class RouteGroup:
    """Consecutive messages of a request which go the same way."""

    resolved: ResolvedRoute
    persistent: bool
    flags: int = 0
    contents: list[bytes] = field(default_factory=list)


class PublishedCounts(NamedTuple):
    """What became of the messages of a request."""

    routed: list[int]  # destinations reached, per message
    refused: list[int]  # indices
    position: int  # where the log must get to
    engine_confirms: list[EngineConfirms]  # of other engines


class Publisher:
    """The publishing side of a connection: resolved routes are remembered per connection."""

    __slots__ = ("_encoder", "_epoch", "_inspection", "_routes", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._encoder = PropertyEncoder()
        self._inspection = PublishInspection(session)
        self._routes: BoundedCache[tuple[str, str], ResolvedRoute] = BoundedCache(MAX_CACHED)
        self._epoch = -1

    def routes(self) -> list[Route]:
        """Routes of recent publishes."""
        return [one.route for one in self._routes.values()]

    def publish(self, request: Request, reply_name: str | None) -> PublishedCounts:
        """Take the messages of a request."""
        vhost = self._session.open_vhost
        batches = self._checked_batches(_messages(request), reply_name)
        routed: list[int] = []
        refused: list[int] = []
        position = 0
        engine_confirms: list[EngineConfirms] = []
        for batch in batches:
            n = len(batch.contents)
            exchange = vhost.exchanges[batch.route.exchange]
            exchange.published += n
            if batch.route.destinations:
                exchange.routed += n * len(batch.route.destinations)
                vhost.publish(batch)
                position = max(position, batch.position)
                if batch.engine_confirms is not None:
                    engine_confirms.append(batch.engine_confirms)
                refused += [len(routed) + index for index in sorted(batch.refused or ())]
            else:
                vhost.counters.dropped += n
            routed += [len(batch.route.destinations)] * n
        return PublishedCounts(routed, refused, position, engine_confirms)

    def prepare(self, publication: Publication, messages: list[Mapping[str, Any]]) -> None:
        """Check messages and add them."""
        for batch in self._checked_batches(messages, None):
            publication.add(batch)

    def _checked_batches(
        self, messages: list[Mapping[str, Any]], reply_name: str | None
    ) -> list[PublishedRun]:
        if self._epoch != self._session.open_vhost.routes.epoch:
            self.forget()
        return list(self._batches(self._groups(messages), reply_name))

    def forget(self) -> None:
        """Routes or permissions changed."""
        self._routes.clear()
        self._inspection.forget()
        self._epoch = self._session.open_vhost.routes.epoch

    def _groups(self, messages: list[Mapping[str, Any]]) -> list[RouteGroup]:
        groups: list[RouteGroup] = []
        resolved, persistent, frame_max = None, False, self._session.config.frame_max
        for fields in messages:
            target, encoded, body = self._read(fields)
            if target is not resolved or encoded.persistent is not persistent:
                resolved, persistent = target, encoded.persistent
                group = RouteGroup(resolved, persistent)
                groups.append(group)
            group.flags |= encoded.flags
            group.contents.append(
                make_frames(encoded.header(len(body)), body, CHANNEL_NUMBER, frame_max)
            )
        return groups

    def _read(self, fields: Mapping[str, Any]) -> tuple[ResolvedRoute, EncodedProperties, bytes]:
        """One message; raises what is wrong with it."""
        exchange, key, body = fields.get("exchange") or "", fields.get("key"), fields.get("body")
        if type(exchange) is not str or type(key) is not str:
            raise CommandInvalid("'exchange' and 'key' must be strings")
        if type(body) is not bytes:
            raise CommandInvalid("'body' must be binary")
        config = self._session.config
        if len(body) > config.max_message_size:
            raise PreconditionFailed(
                f"message size {len(body)} is larger than configured max size "
                f"{config.max_message_size} (setting max_message_size)"
            )
        properties = fields.get("properties")
        if properties is not None and type(properties) is not dict:
            raise CommandInvalid("'properties' must be a map")
        encoded = self._encoder.encode(properties)
        if len(encoded.values) > config.frame_max - HEADER_SPARE:
            # They travel in one AMQP frame, which every consumer must be able to take.
            raise PreconditionFailed("the properties do not fit into one AMQP frame")
        return self._routes.get((exchange, key)) or self._resolve(exchange, key), encoded, body

    def _resolve(self, name: str, key: str) -> ResolvedRoute:
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
            session.check_key("write", exchange, key)
            check_routing_key(key)
        resolved = ResolvedRoute(vhost.routes.get(name, key), not name or exchange.direct_to_queue)
        return self._routes.keep((name, key), resolved)

    def _batches(self, groups: list[RouteGroup], reply_name: str | None) -> Iterator[PublishedRun]:
        for group in groups:
            resolved, persistent = group.resolved, group.persistent
            for batch in self._inspection.batches(
                resolved.route,
                group.flags,
                group.contents,
                sum(map(len, group.contents)),
                number=CHANNEL_NUMBER,
                persistent=persistent,
                reply_name=reply_name,
            ):
                if resolved.by_name and not batch.route.destinations:
                    vhost = self._session.open_vhost
                    raise NotFound(f"no queue '{batch.route.key}' in vhost '{vhost.name}'")
                yield batch


def _messages(request: Request) -> list[Mapping[str, Any]]:
    batch = request.fields.get("batch")
    if batch is None:
        return [request.fields]
    if type(batch) is not list or not all(type(one) is dict for one in batch):
        raise CommandInvalid("'batch' must be an array of maps")
    return batch
