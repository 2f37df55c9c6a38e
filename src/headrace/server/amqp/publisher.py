"""Published runs: from the raw arguments of basic.publish to batches on their way into the core.

Most runs pass as they are; those with special properties are looked at message by message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.cache import BoundedCache
from headrace.core.exchange import Exchange
from headrace.core.loop_turn import Steps
from headrace.core.publication import Publication
from headrace.errors import AccessRefused, PreconditionFailed, Unsupported
from headrace.model.message import PublishedRun, Route
from headrace.server.amqp.channel import Channel
from headrace.server.publish_inspection import MAX_CACHED, SPECIAL, PublishInspection
from headrace.wire.amqp.content import rechannel_all
from headrace.wire.amqp.method_codec import decode_method, method_frame
from headrace.wire.amqp.methods import BasicPublish, BasicReturn
from headrace.wire.amqp.reader import PUBLISH, Event

if TYPE_CHECKING:
    from headrace.server.amqp.session import Session

PUBLISHES = -1  # an event of ours: (PUBLISHES, channel, PUBLISH events of that channel)
PREPARE_AT_ONCE = 32  # publishes of a transaction
JOINED_BYTES = 1 << 20
STRETCH = 8  # so many runs in a row are worth a look at their keys
_PUBLISH_ID = b"\x00\x3c\x00\x28"


class ResolvedRoute(NamedTuple):
    """What the raw arguments of a basic.publish mean on this connection."""

    route: Route
    mandatory: bool
    exchange: Exchange


Publish = tuple[bytes, int, int, list[bytes], int]  # key, flags, mode, contents, size


class PreparedPublishes:
    """The publishes of a transaction, once they are checked."""

    __slots__ = ("dropped", "exchanges", "publication", "unroutable")

    def __init__(self, publication: Publication) -> None:
        self.publication = publication
        self.exchanges: dict[Exchange, tuple[int, int]] = {}  # published, routed
        self.dropped = 0
        self.unroutable: list[PublishedRun] = []  # to be returned

    def add(self, batch: PublishedRun, resolved: ResolvedRoute) -> None:
        n, destinations = len(batch.contents), len(batch.route.destinations)
        published, routed = self.exchanges.get(resolved.exchange, (0, 0))
        self.exchanges[resolved.exchange] = (published + n, routed + n * destinations)
        if destinations:
            self.publication.add(batch)
        elif resolved.mandatory:
            self.unroutable.append(batch)
        else:
            self.dropped += n

    def discard(self) -> None:
        self.publication.discard()


def join_stretches(events: list[Event]) -> list[Event]:
    """Consecutive PUBLISH events of one channel become one PUBLISHES event."""
    joined: list[Event] = []
    stretch: list[Event] = []
    for event in events:
        if stretch and (event[0] != PUBLISH or event[1] != stretch[0][1]):
            joined += _as_one(stretch)
            stretch = []
        if event[0] == PUBLISH:
            stretch.append(event)
        else:
            joined.append(event)
    return joined + _as_one(stretch) if stretch else joined


def _as_one(stretch: list[Event]) -> list[Event]:
    return [(PUBLISHES, stretch[0][1], stretch)] if len(stretch) > STRETCH else stretch


class Publisher:
    """The publishing side of a connection: resolved routes are remembered per connection."""

    __slots__ = ("_epoch", "_inspection", "_routes", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._routes: BoundedCache[bytes, ResolvedRoute] = BoundedCache(MAX_CACHED)
        self._inspection = PublishInspection(session)
        self._epoch = -1

    def routes(self) -> list[Route]:
        """Routes of recent publishes."""
        return [one.route for one in self._routes.values()]

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
        if self._epoch != self._session.open_vhost.routes.epoch:
            self.forget()
        resolved = self._routes.get(key)
        if resolved is None:
            resolved = self._resolve(key)
        if not 0 <= mode <= 2:
            raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{max(mode, 0)}}}")
        if channel.transaction is not None:
            channel.transaction.publish((key, flags & SPECIAL, mode, contents, size))
        else:
            self._pass_on(channel, resolved, flags, mode, contents, size)

    def prepare(self, channel: Channel, publishes: list[Publish], into: PreparedPublishes) -> Steps:
        """The batches of a transaction, as few as the order of messages in each queue allows.

        Raises what is wrong with any of them.
        """
        joined: list[tuple[PublishedRun, ResolvedRoute]] = []
        groups: dict[tuple[object, ...], PublishedRun] = {}
        latest: dict[object, PublishedRun] = {}  # by destination: the last batch that goes there
        for number, (key, flags, mode, contents, size) in enumerate(publishes):
            if not number % PREPARE_AT_ONCE:
                yield
            resolved = self._again(key)
            for batch in self._batches(channel, resolved, flags, mode, contents, size):
                like = (key, id(batch.route), batch.ttl_ms, mode)
                ends = batch.route.destinations or (None,)
                group = groups.get(like)
                if (
                    group is None
                    or group.size > JOINED_BYTES
                    or any([latest.get(end) is not group for end in ends])
                ):
                    batch.contents = [*batch.contents]
                    groups[like] = batch
                    latest.update(dict.fromkeys(ends, batch))
                    joined.append((batch, resolved))
                else:
                    group.contents += batch.contents
                    group.size += batch.size
        for number, (batch, resolved) in enumerate(joined):
            if not number % PREPARE_AT_ONCE:
                yield
            into.add(batch, resolved)

    def publish_prepared(self, channel: Channel, prepared: PreparedPublishes) -> None:
        counters = self._session.open_vhost.counters
        for exchange, (published, routed) in prepared.exchanges.items():
            exchange.published += published
            exchange.routed += routed
            channel.published += published
        channel.dropped += prepared.dropped
        counters.dropped += prepared.dropped
        prepared.publication.publish()

    def return_prepared(self, channel: Channel, prepared: PreparedPublishes) -> Steps:
        """Send back what could not be routed."""
        for batch in prepared.unroutable:
            if channel.closing:
                return
            self._return(channel, batch)
            yield

    def publish_stretch(self, channel: Channel, stretch: list[Event]) -> bool:
        """Take consecutive runs of one channel, in which keys come again and again.

        False when they have to be published one by one: nothing has happened then.
        """
        groups = self._groups(channel, stretch)
        if groups is None:
            return False
        joined: dict[bytes, tuple[int, list[bytes]]] = {}
        for _, _, key, _, mode, contents, _ in stretch:
            group = joined.get(key)
            if group is None:
                joined[key] = (mode, contents)
            else:
                group[1].extend(contents)
        for key, (mode, contents) in joined.items():
            self._pass_on(channel, groups[key], 0, mode, contents, sum(map(len, contents)))
        return True

    def _groups(self, channel: Channel, stretch: list[Event]) -> dict[bytes, ResolvedRoute] | None:
        """Routes by key, if the runs may be joined by key; None if their order matters.

        It does not when no queue is reached by two of the keys and no confirms are counted.
        """
        if channel.transaction is not None or channel.confirms is not None:
            return None
        if self._epoch != self._session.open_vhost.routes.epoch:
            self.forget()
        modes: dict[bytes, int] = {}
        for _, _, key, flags, mode, _, _ in stretch:
            if flags & SPECIAL or modes.setdefault(key, mode) != mode or not 0 <= mode <= 2:
                return None
        if len(modes) * 2 > len(stretch):
            return None  # hardly anything to join
        groups: dict[bytes, ResolvedRoute] = {}
        reached: set[object] = set()
        for key in modes:
            resolved = self._routes.get(key)
            if resolved is None or resolved.route.by_headers:
                return None
            destinations = resolved.route.destinations
            if not destinations or not reached.isdisjoint(destinations):
                return None
            reached.update(destinations)
            groups[key] = resolved
        return groups

    def forget(self) -> None:
        """Routes or permissions changed."""
        self._routes.clear()
        self._inspection.forget()
        self._epoch = self._session.open_vhost.routes.epoch

    def _again(self, key: bytes) -> ResolvedRoute:
        if self._epoch != self._session.open_vhost.routes.epoch:
            self.forget()
        return self._routes.get(key) or self._resolve(key)

    def _resolve(self, key: bytes) -> ResolvedRoute:
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
        session.check_key("write", exchange, method.routing_key)
        route = vhost.routes.get(method.exchange, method.routing_key)
        resolved = ResolvedRoute(route, method.mandatory, exchange)
        return self._routes.keep(key, resolved)

    def _pass_on(
        self,
        channel: Channel,
        resolved: ResolvedRoute,
        flags: int,
        mode: int,
        contents: list[bytes],
        size: int,
    ) -> None:
        route = resolved.route
        if not flags & SPECIAL and not route.by_headers:
            number, persistent = channel.number, mode == 2
            run = PublishedRun(route, contents, size, channel_number=number, persistent=persistent)
            self._publish_batch(channel, run, resolved)
            return
        for batch in self._batches(channel, resolved, flags, mode, contents, size):
            self._publish_batch(channel, batch, resolved)

    def _batches(
        self,
        channel: Channel,
        resolved: ResolvedRoute,
        flags: int,
        mode: int,
        contents: list[bytes],
        size: int,
    ) -> Iterable[PublishedRun]:
        address = channel.reply_address
        return self._inspection.batches(
            resolved.route,
            flags,
            contents,
            size,
            number=channel.number,
            persistent=mode == 2,
            reply_name=address.name if address is not None else None,
        )

    def _publish_batch(
        self, channel: Channel, batch: PublishedRun, resolved: ResolvedRoute
    ) -> None:
        session = self._session
        n = len(batch.contents)
        exchange = resolved.exchange
        exchange.published += n
        channel.published += n
        if batch.route.destinations:
            exchange.routed += n * len(batch.route.destinations)
            session.open_vhost.publish(batch)
        elif resolved.mandatory:
            self._return(channel, batch)
        else:
            channel.dropped += n
            session.open_vhost.counters.dropped += n
        if channel.confirms is not None:
            if batch.engine_confirms is None:
                channel.confirms.add(n, batch.position, batch.refused)
            else:
                self._confirm_later(channel, batch)
            session.confirming.add(channel)
            if batch.position:
                session.broker.storage.wait_for_commit(session.output)
            elif not session.output.marked:
                session.turn.mark_session(session.output)

    def _confirm_later(self, channel: Channel, batch: PublishedRun) -> None:
        """Other engines than the log have to answer first."""
        confirms, session, count = channel.confirms, self._session, len(batch.contents)
        assert confirms is not None
        first = confirms.add_pending(count)

        def resolve() -> None:
            refused = batch.engine_confirms.failed or bool(batch.refused)
            confirms.resolve(first, count, batch.position, refused=refused)
            if not session.closed:
                session.output.mark()

        batch.engine_confirms.when_done(resolve)

    def _return(self, channel: Channel, batch: PublishedRun) -> None:
        session = self._session
        route = batch.route
        channel.returned += len(batch.contents)
        session.open_vhost.counters.returned += len(batch.contents)
        method = BasicReturn(
            reply_code=312, reply_text="NO_ROUTE", exchange=route.exchange, routing_key=route.key
        )
        head = method_frame(channel.number, method)
        for content in rechannel_all(batch.contents, channel.number):
            session.send_bytes(head + content)
