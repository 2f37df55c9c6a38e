"""What the sessions of all protocols share: output once per turn, back-pressure, alarms, silence.

Knows no protocol: a session adds the codec, and says what a peer is told.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.core.auth import User
from headrace.core.broker import Broker
from headrace.core.queue import Queue
from headrace.core.vhost import Vhost

if TYPE_CHECKING:
    from headrace.server.listener import Link

logger = logging.getLogger(__name__)

UNREAD_HIGH = 8 << 20  # a peer that lets this much lie unread is not listened to any more
READ_SHARE = 1 << 16  # a peer that sends more at once waits for the next turn


class Peer:
    """One connection, as far as it does not depend on what is spoken."""

    __slots__ = (
        "_heartbeat",
        "_idle_ticks",
        "_seen",
        "_sent",
        "_sent_seen",
        "blocked",
        "broker",
        "closed",
        "closing",
        "is_full",
        "link",
        "marked",
        "out",
        "out_bytes",
        "position",
        "published",
        "received",
        "starved",
        "ticket",
        "turn",
        "user",
        "vhost",
        "writable",
    )

    def __init__(self, broker: Broker, link: Link) -> None:
        self.broker = broker
        self.link = link
        self.turn = broker.turn
        self.user = User("")
        self.vhost: Vhost | None = None
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.writable = True
        self.is_full = False  # no room for deliveries now
        self.starved: set[Queue] = set()  # queues that wait for room
        self.marked = False
        self.ticket = 0  # of the metadata that our answers speak of
        self.position = 0  # in the journal, of what our answers speak of
        self.closing = False  # we said that the connection ends
        self.closed = False
        self.blocked = False
        self.published = False
        self.received = 0
        self._sent = 0
        self._seen = self._sent_seen = self._idle_ticks = 0
        self._heartbeat = 0.0

    @property
    def open_vhost(self) -> Vhost:
        assert self.vhost is not None, "no vhost before the login"
        return self.vhost

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this."""
        self.user.check(self.open_vhost.name, action, kind, name)

    # -- what a protocol says -------------------------------------------------------------------

    def answer_publishers(self) -> bool:
        """Put answers for what is safe into the output; True when some still have to wait."""
        raise NotImplementedError

    def release_channels(self) -> None:
        """Let go of all channels."""
        raise NotImplementedError

    def tell_blocked(self, reason: str | None) -> None:
        """Publishes are held back; None: not any more."""

    def say_alive(self) -> None:
        """Nothing was sent for half a heartbeat."""

    # -- input ----------------------------------------------------------------------------------

    def count_received(self, size: int) -> None:
        """One share per turn: a flood of publishes must not keep consumers from being served."""
        self.received += size
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

    def send_bytes(self, data: bytes) -> None:
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
        if self.answer_publishers():
            storage.wait(self)
        unsafe = self.ticket > storage.committed or self.position > storage.durable
        if unsafe and not self.closed:
            storage.wait(self)  # an answer in there speaks of something not on disk yet
            return
        out = self.out
        if out and not self.closed:
            data = b"".join(out)
            out.clear()
            self.out_bytes = 0
            self._sent += len(data)
            self.link.write(data)
            if not self.writable and self.link.unsent() > UNREAD_HIGH:
                self.link.pause_reading("unread")
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
            self._heartbeat = float(seconds)
            self.link.call_later(seconds / 2, self._beat)

    def _beat(self) -> None:
        """Twice per interval: say that we live, see whether the peer does."""
        if self.closed:
            return
        if self._sent == self._sent_seen:
            self.say_alive()
        self._sent_seen = self._sent
        # While we do not read, silence is our own doing.
        quiet = self.received == self._seen and not self.link.is_paused
        self._idle_ticks = self._idle_ticks + 1 if quiet else 0
        self._seen = self.received
        if self._idle_ticks > 4:
            logger.warning("connection %s: missed heartbeats, closed", self.link.name)
            self.link.abort()
        else:
            self.link.call_later(self._heartbeat / 2, self._beat)

    # -- life -----------------------------------------------------------------------------------

    def opened(self) -> None:
        """The handshake is done."""
        self.link.opened()
        self.broker.connections.add(self)
        self.broker.alarms.subscribe(self.alarm_changed)

    def force_close(self, reason: str) -> None:
        """An operator, or the end of the broker."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of everything in the core: channels first, then exclusive queues."""
        self.release_channels()
        self.starved.clear()
        if self.vhost is not None:
            self.vhost.release_exclusive(self)
        self.broker.connections.discard(self)
        self.broker.alarms.unsubscribe(self.alarm_changed)

    def lost(self) -> None:
        """The socket is gone."""
        if not self.closed:
            self.closed = True
            self.release()
            self.out.clear()
