"""What the sessions of all protocols share: output once per turn, back-pressure, alarms, silence.

Knows no protocol: a session adds the codec, and says what a peer is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from headrace.core.auth import User
from headrace.core.broker import Broker
from headrace.core.exchange import Exchange
from headrace.core.vhost import Vhost
from headrace.errors import BrokerError, InternalError
from headrace.model.permissions import READ
from headrace.server.holding import Holding, Starved

if TYPE_CHECKING:
    from headrace.server.listener import Link

logger = logging.getLogger(__name__)
T = TypeVar("T")

GOODBYE_SECONDS = 1.0  # for a peer to hang up once it has been sent everything
UNREAD_HIGH = 8 << 20  # a peer that lets this much lie unread is not listened to any more
READ_SHARE = 1 << 16  # a peer that sends more at once waits for the next turn


class Peer:
    """One connection, as far as it does not depend on what is spoken."""

    protocol: ClassVar[str] = ""  # as people call it

    __slots__ = (
        "_idle_ticks",
        "_seen",
        "_sent_seen",
        "blocked",
        "broker",
        "closed",
        "closing",
        "connected_at",
        "ending",
        "heartbeat",
        "is_full",
        "link",
        "login",
        "marked",
        "mechanism",
        "out",
        "out_bytes",
        "position",
        "published",
        "reads",
        "received",
        "sent",
        "starved",
        "ticket",
        "turn",
        "user",
        "vhost",
        "writable",
        "writes",
    )

    def __init__(self, broker: Broker, link: Link) -> None:
        self.broker = broker
        self.link = link
        self.turn = broker.turn
        self.user = User("")
        self.login: asyncio.Task[None] | None = None  # a password is being checked
        self.vhost: Vhost | None = None
        self.out: list[bytes | bytearray] = []
        self.out_bytes = 0
        self.writable = True
        self.is_full = False  # no room for deliveries now
        self.starved: set[Starved] = set()  # queues and others that wait for room
        self.marked = False
        self.ticket = 0  # of the metadata that our answers speak of
        self.position = 0  # in the journal, of what our answers speak of
        self.closing = False  # we said that the connection ends
        self.ending = False  # nothing follows what is in the output
        self.closed = False
        self.blocked = False
        self.published = False
        self.mechanism = ""  # how the peer proved who it is
        self.connected_at = 0.0  # seconds since 1970
        self.received = self.reads = 0
        self.sent = self.writes = 0
        self._seen = self._sent_seen = self._idle_ticks = 0
        self.heartbeat = 0.0

    @property
    def open_vhost(self) -> Vhost:
        assert self.vhost is not None, "no vhost before the login"
        return self.vhost

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this."""
        self.user.check(self.open_vhost.name, action, kind, name)

    def check_key(self, action: str, exchange: Exchange | None, key: str) -> None:
        """Raise AccessRefused unless the user may use the key, if it is a topic exchange."""
        if exchange is not None and exchange.router.kind == "topic":
            self.user.check_topic(self.open_vhost.name, action, exchange.name, key)

    # -- what a protocol says -------------------------------------------------------------------

    def answer_publishers(self) -> bool:
        """Put answers for what is safe into the output; True when some still have to wait."""
        raise NotImplementedError

    def release_channels(self) -> None:
        """Let go of all channels."""
        raise NotImplementedError

    def forget_permissions(self) -> None:
        """What was allowed before may not be allowed any more."""
        raise NotImplementedError

    def holdings(self) -> list[Holding]:
        """All open channels."""
        raise NotImplementedError

    def tell_blocked(self, reason: str | None) -> None:
        """Publishes are held back; None: not any more."""

    def say_alive(self) -> None:
        """Nothing was sent for a while: send a heartbeat, and count it."""

    # -- login ----------------------------------------------------------------------------------

    def log_in(
        self,
        login: Coroutine[Any, Any, T],
        then: Callable[[T | BrokerError], None],
    ) -> None:
        """Wait for work away from the loop, such as a login; ``then`` gets the result or the error.

        The peer's next requests wait until then.
        """
        self.link.login_begins()
        self.link.pause_reading("login")
        self.login = self.broker.loop.create_task(self._log_in(login, then))

    async def _log_in(
        self,
        login: Coroutine[Any, Any, T],
        then: Callable[[T | BrokerError], None],
    ) -> None:
        try:
            outcome: T | BrokerError = await login
        except BrokerError as error:
            outcome = error
        except Exception:
            logger.exception("unexpected failure on %s", self.link.name)
            outcome = InternalError("unexpected failure; see the broker's log")
        self.login = None
        if not self.closing and not self.closed:
            then(outcome)
            self.link.resume_reading("login")

    # -- rights ---------------------------------------------------------------------------------

    @property
    def channel_count(self) -> int:
        return len(self.holdings())

    def rights_changed(self, user: User) -> None:
        """Take effect at once; consumers that may not read any more are ended."""
        self.user = user
        self.forget_permissions()
        vhost = self.open_vhost.name
        for channel in self.holdings():
            for consumer in list(channel.consumers.values()):
                if not user.allows(vhost, READ, consumer.queue.name):
                    channel.end_consumer(consumer)

    # -- input ----------------------------------------------------------------------------------

    def count_received(self, size: int) -> None:
        """One share per turn: a flood of publishes must not keep consumers from being served."""
        self.received += size
        self.reads += 1
        if size >= READ_SHARE:
            self.link.pause_reading("share")
            self.turn.at_end(self._next_share)

    def _next_share(self) -> None:
        self.link.resume_reading("share")

    def note_publish(self) -> None:
        """Before a publish: a publisher waits while an alarm is on."""
        self.published = True
        if self.broker.alarms.reason is not None:
            self.block()

    def heed_journal(self) -> None:
        """After a publish: a publisher waits for a slow disk."""
        if self.broker.storage.is_behind:
            self.link.pause_reading("journal")
            self.broker.storage.when_caught_up(self._caught_up)

    def _caught_up(self) -> None:
        self.link.resume_reading("journal")

    # -- output ---------------------------------------------------------------------------------

    def send_bytes(self, data: bytes | bytearray) -> None:
        self.out.append(data)
        self.out_bytes += len(data)
        if not self.marked:
            self.turn.mark_session(self)

    def drop_promises(self) -> None:
        """What waits for the disk will never be true; the peer must hear of the end at once."""
        self.out.clear()
        self.out_bytes = self.ticket = self.position = 0

    def flush(self) -> None:
        """End of a turn: answer publishers, write everything at once."""
        storage = self.broker.storage
        waits = self.answer_publishers()
        if waits:
            storage.wait(self)
        unsafe = self.ticket > storage.committed or self.position > storage.durable
        if unsafe and not self.closed:
            storage.wait(self)  # an answer in there speaks of something not on disk yet
            return
        out = self.out
        if out and not self.closed:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self.out_bytes = 0
            self.sent += len(data)
            self.writes += 1
            self.link.write(data)
            if not self.writable and self.link.unsent() > UNREAD_HIGH:
                self.link.pause_reading("unread")
        if self.ending and not out and not waits and not self.closed:
            self.ending = False
            self.link.end_output(GOODBYE_SECONDS)
        self.is_full = not self.writable
        if self.starved and self.writable:
            self.feed_starved()

    def feed_starved(self) -> None:
        """There is room again: let the waiting queues deal."""
        starved, self.starved = self.starved, set()
        for queue in starved:
            queue.mark()

    def pause_writing(self) -> None:
        """The socket is full: deliveries wait in their queues."""
        self.writable = False
        self.is_full = True

    def resume_writing(self) -> None:
        self.writable = True
        self.is_full = False
        self.link.resume_reading("unread")
        self.feed_starved()

    # -- alarms ---------------------------------------------------------------------------------

    def block(self) -> None:
        """Stop reading from a publisher until the alarm is over."""
        if self.blocked or self.closing or not self.published:
            return
        self.blocked = True
        self.tell_blocked(self.broker.alarms.reason or "low on resources")
        self.link.pause_reading("alarm")

    def alarm_changed(self) -> None:
        if self.broker.alarms.reason is not None:
            self.block()
        elif self.blocked:
            self.blocked = False
            self.tell_blocked(None)
            self.link.resume_reading("alarm")

    # -- heartbeats -----------------------------------------------------------------------------

    def start_heartbeat(self, seconds: int) -> None:
        if seconds:
            self.heartbeat = float(seconds)
            self.link.call_later(seconds / 4, self._beat)

    def _beat(self) -> None:
        """Four times per interval, so that no silence of ours lasts longer than half of one."""
        if self.closed:
            return
        before, self._sent_seen = self._sent_seen, self.sent
        if self.sent == before:
            self.say_alive()
        # While we do not read, silence is our own doing.
        quiet = self.received == self._seen and not self.link.is_paused
        self._idle_ticks = self._idle_ticks + 1 if quiet else 0
        self._seen = self.received
        if self._idle_ticks > 9:
            logger.warning("connection %s: missed heartbeats, closed", self.link.name)
            self.release()
            self.link.abort()
        else:
            self.link.call_later(self.heartbeat / 4, self._beat)

    # -- life -----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The handshake is done."""
        self.link.opened()
        self.connected_at = self.broker.clock.wall_seconds()
        self.broker.connections.add(self)
        self.broker.churn.connections_opened += 1
        self.broker.alarms.subscribe(self.alarm_changed)

    @property
    def is_open(self) -> bool:
        """The handshake is done, and neither side has said goodbye."""
        return self in self.broker.connections

    def force_close(self, reason: str) -> None:
        """An operator, or the end of the broker."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of everything in the core: channels first, then exclusive queues."""
        self.release_channels()
        self.starved.clear()
        if self.vhost is not None:
            self.vhost.release_exclusive(self)
        if self.is_open:
            self.broker.connections.remove(self)
            self.broker.churn.connections_closed += 1
        self.broker.alarms.unsubscribe(self.alarm_changed)

    def lost(self) -> None:
        """The socket is gone."""
        if not self.closed:
            self.closed = True
            if self.login is not None:
                self.login.cancel()
            self.release()
            self.out.clear()
