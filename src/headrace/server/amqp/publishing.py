"""Published runs: from the raw arguments of basic.publish to batches on their way into the core.

Most runs pass as they are; those with special properties are looked at message by message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import AccessRefused, PreconditionFailed, Unsupported
from headrace.model.message import Batch, Route
from headrace.server.amqp.channel import Channel
from headrace.server.inspection import MAX_CACHED, SPECIAL, Inspection
from headrace.wire.amqp.content import rechannel_all
from headrace.wire.amqp.methods import BasicPublish, BasicReturn, decode_method, method_frame

if TYPE_CHECKING:
    from headrace.server.amqp.session import Session

_PUBLISH_ID = b"\x00\x3c\x00\x28"


class Resolved(NamedTuple):
    """What the raw arguments of a basic.publish mean on this connection."""

    route: Route
    mandatory: bool


class Publisher:
    """The publishing side of a connection: resolved routes are remembered per connection."""

    __slots__ = ("_epoch", "_inspection", "_routes", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._routes: dict[bytes, Resolved] = {}
        self._inspection = Inspection(session)
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
        self._inspection.forget()
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
        if not flags & SPECIAL and not route.by_headers:
            batch = Batch(route, contents, size, origin=channel.number, persistent=persistent)
            self._publish_batch(channel, batch, mandatory)
            return
        address = channel.reply_address
        for batch in self._inspection.batches(
            route,
            flags,
            contents,
            size,
            number=channel.number,
            persistent=persistent,
            reply_name=address.name if address is not None else None,
        ):
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
