"""Published runs: from the raw arguments of basic.publish to batches on their way into the core.

Most runs pass as they are. Only headers, expiration, reply-to and user-id are looked at message by
message, and headers only when the bytes show that there is something in them for the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.replies import PSEUDO_QUEUE
from headrace.errors import AccessRefused, BrokerError, PreconditionFailed, Unsupported
from headrace.model.message import Batch, Route
from headrace.server.amqp.channel import Channel
from headrace.wire.amqp.content import properties_of, rechannel_all, with_properties
from headrace.wire.amqp.methods import BasicPublish, BasicReturn, decode_method, method_frame
from headrace.wire.amqp.properties import (
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_REPLY_TO,
    FLAG_USER_ID,
    HeaderTable,
    expiration,
    headers_raw,
    reply_to,
    user_id,
)

if TYPE_CHECKING:
    from headrace.server.amqp.session import Session

MAX_CACHED = 4096
MAX_TTL_MS = (1 << 32) - 1
_SPECIAL = FLAG_HEADERS | FLAG_EXPIRATION | FLAG_REPLY_TO | FLAG_USER_ID
_PUBLISH_ID = b"\x00\x3c\x00\x28"


class Resolved(NamedTuple):
    """What the raw arguments of a basic.publish mean on this connection."""

    route: Route
    mandatory: bool


class Publisher:
    """The publishing side of a connection: resolved routes are remembered per connection."""

    __slots__ = ("_by_headers", "_epoch", "_routes", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._routes: dict[bytes, Resolved] = {}
        self._by_headers: dict[tuple[str, str, bytes], Route] = {}
        self._epoch = -1

    def publish(
        self,
        channel: Channel,
        key: bytes,
        flags: int,
        mode: int,
        contents: list[bytes],
        size: int,
    ) -> None:
        """Take a run from the wire. Raises what the client did wrong."""
        session = self._session
        if self._epoch != session.open_vhost.epoch:
            self.forget()
        resolved = self._routes.get(key)
        if resolved is None:
            resolved = self._resolve(key)
        if not 0 <= mode <= 2:
            raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{max(mode, 0)}}}")
        if channel.transaction is not None:
            channel.transaction.publish(
                lambda: self._pass_on(channel, self._again(key), flags, mode, contents, size)
            )
        else:
            self._pass_on(channel, resolved, flags, mode, contents, size)

    def forget(self) -> None:
        """Routes or permissions changed."""
        self._routes.clear()
        self._by_headers.clear()
        self._epoch = self._session.open_vhost.epoch

    def _again(self, key: bytes) -> Resolved:
        if self._epoch != self._session.open_vhost.epoch:
            self.forget()
        return self._routes.get(key) or self._resolve(key)

    def _resolve(self, key: bytes) -> Resolved:
        method = decode_method(_PUBLISH_ID + key)
        assert isinstance(method, BasicPublish)
        session = self._session
        vhost = session.open_vhost
        if method.immediate:
            raise Unsupported("immediate=true")
        session.check("write", "exchange", method.exchange)
        exchange = vhost.get_exchange(method.exchange)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{method.exchange}' in vhost '{vhost.name}'"
            )
        route = vhost.route(method.exchange, method.routing_key)
        resolved = Resolved(route, method.mandatory)
        if len(self._routes) >= MAX_CACHED:
            self._routes.clear()
        self._routes[key] = resolved
        return resolved

    def _pass_on(
        self,
        channel: Channel,
        resolved: Resolved,
        flags: int,
        mode: int,
        contents: list[bytes],
        size: int,
    ) -> None:
        route, mandatory = resolved
        persistent = mode == 2
        if not flags & _SPECIAL and not route.by_headers:
            batch = Batch(route, contents, size, origin=channel.number, persistent=persistent)
            self._publish_batch(channel, batch, mandatory)
            return
        for batch in self._prepare(channel, route, flags, contents, size, persistent):
            self._publish_batch(channel, batch, mandatory)

    def _publish_batch(self, channel: Channel, batch: Batch, mandatory: bool) -> None:
        session = self._session
        n = len(batch.contents)
        if batch.route.destinations:
            session.open_vhost.publish(batch)
        elif mandatory:
            self._return(channel, batch)
        if channel.confirms is not None:
            channel.confirms.add(n, batch.position, batch.refused)
            session.confirming.add(channel)
            if not session.marked:
                session.turn.mark_session(session)

    def _return(self, channel: Channel, batch: Batch) -> None:
        session = self._session
        route = batch.route
        method = BasicReturn(
            reply_code=312, reply_text="NO_ROUTE", exchange=route.exchange, routing_key=route.key
        )
        head = method_frame(channel.number, method)
        for content in rechannel_all(batch.contents, channel.number):
            session.send_bytes(head + content)

    # -- messages that need a closer look -------------------------------------------------------

    def _prepare(
        self,
        channel: Channel,
        route: Route,
        flags: int,
        contents: list[bytes],
        size: int,
        persistent: bool,
    ) -> Iterator[Batch]:
        """The run as batches of messages alike in route and expiration.

        A faulty message ends the run; those before it are published.
        """
        by_headers = route.by_headers
        if flags & FLAG_HEADERS and not by_headers:
            joined = b"".join(contents)
            by_headers = b"\x02CC" in joined or b"\x03BCC" in joined
        if not by_headers and not flags & (FLAG_EXPIRATION | FLAG_REPLY_TO | FLAG_USER_ID):
            yield Batch(route, contents, size, origin=channel.number, persistent=persistent)
            return
        batch: Batch | None = None
        fault: BrokerError | None = None
        for content in contents:
            try:
                where, ttl_ms, content = self._inspect(channel, route, flags, content, by_headers)
            except BrokerError as error:
                fault = error
                break
            if batch is not None and batch.route is where and batch.ttl_ms == ttl_ms:
                batch.contents.append(content)
                batch.size += len(content)
                continue
            if batch is not None:
                yield batch
            batch = Batch(
                where,
                [content],
                len(content),
                origin=channel.number,
                persistent=persistent,
                ttl_ms=ttl_ms,
            )
        if batch is not None:
            yield batch
        if fault is not None:
            raise fault

    def _inspect(
        self, channel: Channel, route: Route, flags: int, content: bytes, by_headers: bool
    ) -> tuple[Route, int | None, bytes]:
        """One message: its own route, its time to live, its content as it is to be stored."""
        ttl_ms = None
        if flags & FLAG_USER_ID:
            self._check_user(content)
        if flags & FLAG_EXPIRATION:
            ttl_ms = parse_expiration(expiration(content))
        if flags & FLAG_REPLY_TO and reply_to(content) == PSEUDO_QUEUE:
            content = self._with_reply_address(channel, content)
        if by_headers:
            route, content = self._route_by_headers(route, content)
        return route, ttl_ms, content

    def _check_user(self, content: bytes) -> None:
        name = user_id(content)
        user = self._session.user
        if name is not None and name != user.name and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{name}' but authenticated user was '{user.name}'"
            )

    def _with_reply_address(self, channel: Channel, content: bytes) -> bytes:
        if channel.reply_address is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        properties = properties_of(content)
        properties.reply_to = channel.reply_address.name
        return with_properties(content, properties)

    def _route_by_headers(self, route: Route, content: bytes) -> tuple[Route, bytes]:
        raw = headers_raw(content)
        if b"\x02CC" not in raw and b"\x03BCC" not in raw:
            return self._cached_by_headers(route, raw), content
        headers = HeaderTable(raw)
        keys = [route.key, *_carbon(headers, "CC"), *_carbon(headers, "BCC")]
        if "BCC" in headers:
            properties = properties_of(content)
            properties.headers = headers.copy()
            properties.headers.remove("BCC")
            content = with_properties(content, properties)
        if len(keys) == 1 and not route.by_headers:
            return route, content
        vhost = self._session.open_vhost
        return vhost.find_route(route.exchange, keys, headers.as_dict()), content

    def _cached_by_headers(self, route: Route, raw: bytes) -> Route:
        if not route.by_headers:
            return route
        identity = (route.exchange, route.key, raw)
        found = self._by_headers.get(identity)
        if found is None:
            headers = HeaderTable(raw).as_dict()
            found = self._session.open_vhost.find_route(route.exchange, [route.key], headers)
            if len(self._by_headers) >= MAX_CACHED:
                self._by_headers.clear()
            self._by_headers[identity] = found
        return found


def _carbon(headers: HeaderTable, name: str) -> list[str]:
    """Additional routing keys of a message."""
    if name not in headers:
        return []
    value = headers.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}"}}')
    return value


def parse_expiration(text: str | None) -> int | None:
    """Milliseconds from the `expiration` property."""
    if text is None:
        return None
    sign = -1 if text.startswith("-") else 1
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        raise PreconditionFailed(f"invalid expiration '{text}': no_integer")
    value = sign * int(digits[:20])
    if value < 0:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_negative,{value}}}")
    if value > MAX_TTL_MS:
        raise PreconditionFailed(f"invalid expiration '{text}': {{value_too_large,{value}}}")
    return value
