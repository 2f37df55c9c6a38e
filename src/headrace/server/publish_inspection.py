"""A closer look at published messages, the same for every protocol.

Only headers, expiration, reply-to and user-id are looked at message by message, and headers only
when the bytes show that there is something in them for the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from headrace.cache import BoundedCache
from headrace.core.access.user import User
from headrace.core.reply_to import PSEUDO_QUEUE
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, PreconditionFailed
from headrace.model.message import PublishedRun, Route
from headrace.model.permissions import WRITE
from headrace.wire.amqp.content import properties_of, with_properties
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

MAX_CACHED = 4096
MAX_TTL_MS = (1 << 32) - 1
SPECIAL = FLAG_HEADERS | FLAG_EXPIRATION | FLAG_REPLY_TO | FLAG_USER_ID


class PublishSource(Protocol):
    """The connection that messages come from."""

    user: User

    @property
    def open_vhost(self) -> Vhost: ...


class PublishInspection:
    """Turns contents into batches; routes that depend on headers are remembered."""

    __slots__ = ("_by_headers", "_source")

    def __init__(self, source: PublishSource) -> None:
        self._source = source
        self._by_headers: BoundedCache[tuple[str, str, bytes], Route] = BoundedCache(MAX_CACHED)

    def forget(self) -> None:
        """Routes or permissions changed."""
        self._by_headers.clear()

    def batches(
        self,
        route: Route,
        flags: int,
        contents: list[bytes],
        size: int,
        *,
        number: int,
        persistent: bool,
        reply_name: str | None,
    ) -> Iterator[PublishedRun]:
        """The messages as batches alike in route and expiration.

        ``flags``: properties that some message may have. A faulty message ends the run; those
        before it are yielded first.
        """
        by_headers = route.by_headers
        if flags & FLAG_HEADERS and not by_headers:
            joined = b"".join(contents)
            by_headers = b"\x02CC" in joined or b"\x03BCC" in joined
        if not by_headers and not flags & (FLAG_EXPIRATION | FLAG_REPLY_TO | FLAG_USER_ID):
            yield PublishedRun(route, contents, size, channel_number=number, persistent=persistent)
            return
        batch: PublishedRun | None = None
        fault: BrokerError | None = None
        for content in contents:
            try:
                where, ttl_ms, content = self._inspect(
                    route, flags, content, reply_name, by_headers=by_headers
                )
            except BrokerError as error:
                fault = error
                break
            if batch is not None and batch.route is where and batch.ttl_ms == ttl_ms:
                batch.contents.append(content)
                batch.size += len(content)
                continue
            if batch is not None:
                yield batch
            batch = PublishedRun(
                where,
                [content],
                len(content),
                channel_number=number,
                persistent=persistent,
                ttl_ms=ttl_ms,
            )
        if batch is not None:
            yield batch
        if fault is not None:
            raise fault

    def _inspect(
        self,
        route: Route,
        flags: int,
        content: bytes,
        reply_name: str | None,
        *,
        by_headers: bool,
    ) -> tuple[Route, int | None, bytes]:
        """One message: its own route, its time to live, its content as it is to be stored."""
        ttl_ms = None
        if flags & FLAG_USER_ID:
            self._check_user(content)
        if flags & FLAG_EXPIRATION:
            ttl_ms = parse_expiration(expiration(content))
        if flags & FLAG_REPLY_TO and reply_to(content) == PSEUDO_QUEUE:
            content = _with_reply_address(content, reply_name)
        if by_headers:
            route, content = self._route_by_headers(route, content)
        return route, ttl_ms, content

    def _check_user(self, content: bytes) -> None:
        name = user_id(content)
        user = self._source.user
        if name is not None and name != user.name and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{name}' but authenticated user was '{user.name}'"
            )

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
        vhost = self._source.open_vhost
        self._check_keys(vhost, route.exchange, keys)
        return vhost.routes.find(route.exchange, keys, headers.as_dict()), content

    def _check_keys(self, vhost: Vhost, exchange: str, keys: list[str]) -> None:
        """A key in a header must not reach where the routing key may not."""
        user = self._source.user
        if (user.topics or user.topics_lost) and vhost.get_exchange(
            exchange
        ).router.kind == "topic":
            for key in keys:
                user.check_topic(vhost.name, WRITE, exchange, key)

    def _cached_by_headers(self, route: Route, raw: bytes) -> Route:
        if not route.by_headers:
            return route
        identity = (route.exchange, route.key, raw)
        found = self._by_headers.get(identity)
        if found is None:
            headers = HeaderTable(raw).as_dict()
            found = self._source.open_vhost.routes.find(route.exchange, [route.key], headers)
            self._by_headers.keep(identity, found)
        return found


def _with_reply_address(content: bytes, reply_name: str | None) -> bytes:
    if reply_name is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    properties = properties_of(content)
    properties.reply_to = reply_name
    return with_properties(content, properties)


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
