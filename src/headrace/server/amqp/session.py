"""One AMQP connection: bytes in, events to channels, bytes out, errors to close methods.

A plain class, driven by a transport (server/listener.py); all it knows of the network is write(),
close(), abort() and pausing. Output is collected and written once per turn of the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any

from headrace.core.auth import User
from headrace.core.broker import Broker
from headrace.core.queue import Queue
from headrace.core.vhost import Vhost
from headrace.errors import (
    BrokerError,
    ChannelError,
    ChannelStateError,
    ConnectionForced,
    FatalError,
    InternalError,
)
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.consuming import ack_in_transaction
from headrace.server.amqp.dispatch import dispatch
from headrace.server.amqp.handshake import Handshake, Limits
from headrace.server.amqp.publishing import Publisher
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.reader import (
    ACK,
    ACK_UPTO,
    FAULT,
    METHOD,
    PUBLISH,
    TOO_LARGE,
    Event,
    Reader,
)

if TYPE_CHECKING:
    from headrace.server.listener import Link

logger = logging.getLogger(__name__)

UNREAD_HIGH = 8 << 20  # a peer that lets this much lie unread is not listened to any more
READ_SHARE = 1 << 16  # a peer that sends more at once waits for the next turn
CLOSE_OK_SECONDS = 3.0
_PUBLISH_IDS = (60, 40)
_ACK_IDS = (60, 80)
_ids = Struct(">HH").unpack_from


class Session:
    """State of one connection, from the protocol header to the end."""

    __slots__ = (
        "_heartbeat",
        "_idle_ticks",
        "_seen",
        "_sent",
        "_sent_seen",
        "blocked",
        "broker",
        "channel_max",
        "channels",
        "client_properties",
        "closed",
        "closing",
        "confirming",
        "frame_max",
        "handshake",
        "is_full",
        "limits",
        "link",
        "marked",
        "notify_blocked",
        "notify_cancel",
        "out",
        "out_bytes",
        "position",
        "published",
        "publisher",
        "reader",
        "received",
        "small_frames",
        "starved",
        "ticket",
        "turn",
        "user",
        "vhost",
        "writable",
    )

    def __init__(self, broker: Broker, limits: Limits, link: Link) -> None:
        self.broker = broker
        self.limits = limits
        self.link = link
        self.turn = broker.turn
        self.reader = Reader(limits.frame_min, limits.max_message, limits.frame_max - 8)
        self.handshake: Handshake | None = Handshake(self)
        self.user = User("")
        self.vhost: Vhost | None = None
        self.client_properties: Mapping[str, Any] = {}
        self.notify_cancel = False
        self.notify_blocked = False
        self.channels: dict[int, Channel] = {}
        self.publisher = Publisher(self)
        self.confirming: set[Channel] = set()
        self.frame_max = limits.frame_min
        self.channel_max = limits.channel_max
        self.small_frames = False  # the peer wants smaller frames than others may have sent
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.writable = True
        self.is_full = False  # no room for deliveries now
        self.starved: set[Queue] = set()  # queues that wait for room
        self.marked = False
        self.ticket = 0  # of the metadata that our answers speak of
        self.position = 0  # in the journal, of what our answers speak of
        self.closing = False  # we sent connection.close, or answered it
        self.closed = False
        self.blocked = False
        self.published = False
        self.received = 0
        self._sent = 0
        self._seen = self._sent_seen = self._idle_ticks = 0
        self._heartbeat = 0.0

    @property
    def open_vhost(self) -> Vhost:
        assert self.vhost is not None, "no vhost before connection.open"
        return self.vhost

    def check(self, action: str, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user may do this."""
        self.user.check(self.open_vhost.name, action, kind, name)

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the peer. Never raises."""
        self.received += len(data)
        if len(data) >= READ_SHARE:
            # One share per turn: a flood of publishes must not keep consumers from being served.
            self.link.pause_reading("share")
            self.turn.at_end(self._next_share)
        if self.handshake is not None:
            rest = self.handshake.take_header(data)
            if rest is None:
                return
            data = rest
        channels = self.channels
        for event in self.reader.feed(data):
            if self.closing:
                self._while_closing(event)
                continue
            kind = event[0]
            if kind == FAULT:
                self._fail(event[1], 0, (0, 0))
                return
            channel = channels.get(event[1])
            if kind == METHOD:
                self._method(event[1], channel, event[2])
            elif channel is None or self.handshake is not None:
                self._fail(ChannelStateError("expected 'channel.open'"), 0, (0, 0))
            elif not channel.closing:
                self._message(channel, kind, event)

    def _next_share(self) -> None:
        self.link.resume_reading("share")

    def _caught_up(self) -> None:
        self.link.resume_reading("journal")

    def _message(self, channel: Channel, kind: int, event: Event) -> None:
        """The events that are not methods: publishes and acks, in runs."""
        try:
            if kind == PUBLISH:
                self.published = True
                if self.broker.alarms.reason is not None:
                    self.block()
                self.publisher.publish(channel, *event[2:])
                if self.broker.storage.is_behind:
                    self.link.pause_reading("journal")
                    self.broker.storage.when_caught_up(self._caught_up)
            elif channel.transaction is not None:
                self._ack_later(channel, kind, event)
            elif kind == ACK:
                channel.acknowledge(event[2], event[3])
            elif kind == ACK_UPTO:
                channel.acknowledge_upto(event[2])
            elif kind == TOO_LARGE:
                raise event[2]
        except BrokerError as error:
            ids = _ACK_IDS if kind in (ACK, ACK_UPTO) else _PUBLISH_IDS
            self._fail(error, channel.number, ids)
        except Exception:
            self._bug(channel.number, _PUBLISH_IDS)

    def _ack_later(self, channel: Channel, kind: int, event: Event) -> None:
        if kind == TOO_LARGE:
            raise event[2]
        ack_in_transaction(channel, event[2], None if kind == ACK_UPTO else event[3])

    def _method(self, number: int, channel: Channel | None, payload: bytes) -> None:
        ids = _ids(payload)
        try:
            dispatch(self, number, channel, m.decode_method(payload))
            self.ticket = self.broker.storage.issued
        except BrokerError as error:
            self._fail(error, number, ids)
        except Exception:
            self._bug(number, ids)

    def _while_closing(self, event: Event) -> None:
        """After connection.close only its answer matters."""
        if event[0] != METHOD or event[1]:
            return
        ids = _ids(event[2])
        if ids == (10, 50):
            self.send(0, m.ConnectionCloseOk())
            self.flush()
            self.link.close()
        elif ids == (10, 51):
            self.link.close()

    # -- errors ---------------------------------------------------------------------------------

    def _fail(self, error: BrokerError, number: int, ids: tuple[int, int]) -> None:
        """Tell the peer what went wrong: on the channel if that is enough."""
        channel = self.channels.get(number)
        if isinstance(error, ChannelError) and channel is not None:
            self.close_channel(channel, error, ids)
        elif self.handshake is not None:
            self.handshake.refuse(error)
        else:
            self.close(error, ids)

    def _bug(self, number: int, ids: tuple[int, int]) -> None:
        logger.exception("unexpected failure on %s channel %d", self.link.name, number)
        self._fail(InternalError("unexpected failure; see the broker's log"), number, ids)

    def close_channel(self, channel: Channel, error: BrokerError, ids: tuple[int, int]) -> None:
        """Close the channel from our side; it is free again once the peer has answered."""
        logger.info("channel %d of %s closed: %s", channel.number, self.link.name, error)
        self.answer_confirms(channel)
        channel.release()
        self.send(
            channel.number,
            m.ChannelClose(
                reply_code=error.amqp_code,
                reply_text=error.reply_text,
                class_id=ids[0],
                method_id=ids[1],
            ),
        )

    def close(self, error: BrokerError, ids: tuple[int, int] = (0, 0)) -> None:
        """Close the connection from our side."""
        if self.closing or self.closed:
            return
        if isinstance(error, FatalError) and not isinstance(error, ConnectionForced):
            logger.warning("connection %s closed: %s", self.link.name, error)
        if self.broker.storage.has_failed:
            # What waits for the disk will never be true; the peer must hear of the end at once.
            self.out.clear()
            self.out_bytes = self.ticket = self.position = 0
        for channel in self.channels.values():
            self.answer_confirms(channel)
        self.release()
        self.closing = True
        self.send(
            0,
            m.ConnectionClose(
                reply_code=error.amqp_code,
                reply_text=error.reply_text,
                class_id=ids[0],
                method_id=ids[1],
            ),
        )
        self.flush()
        self.link.resume_reading("alarm")
        self.link.close_after(CLOSE_OK_SECONDS)

    def force_close(self, reason: str) -> None:
        """An operator, or the end of the broker."""
        if self.handshake is not None:
            self.link.abort()
        else:
            self.close(ConnectionForced(reason))

    # -- output ---------------------------------------------------------------------------------

    def send(self, channel: int, method: m.Method) -> None:
        self.send_bytes(m.method_frame(channel, method))

    def send_bytes(self, data: bytes) -> None:
        self.out.append(data)
        self.out_bytes += len(data)
        if not self.marked:
            self.turn.mark_session(self)

    def answer_confirms(self, channel: Channel) -> None:
        """Confirm what was published on the channel and is safe."""
        confirms = channel.confirms
        if confirms is not None:
            for answer in confirms.take_answers(self.broker.storage.durable):
                self.out.append(m.method_frame(channel.number, answer))
        if confirms is None or not confirms.is_waiting:
            self.confirming.discard(channel)

    def flush(self) -> None:
        """End of a turn: answer publishers, write everything at once."""
        storage = self.broker.storage
        if self.confirming:
            for channel in tuple(self.confirming):
                self.answer_confirms(channel)
            if self.confirming:
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
        if self.notify_blocked:
            reason = self.broker.alarms.reason or "low on resources"
            self.send(0, m.ConnectionBlocked(reason=reason))
        self.link.pause_reading("alarm")

    def alarm_changed(self) -> None:
        if self.broker.alarms.reason is not None:
            self.block()
        elif self.blocked:
            self.blocked = False
            if self.notify_blocked:
                self.send(0, m.ConnectionUnblocked())
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
            self.link.write(b"\x08\x00\x00\x00\x00\x00\x00\xce")
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
        self.handshake = None
        self.link.opened()
        self.broker.connections.add(self)
        self.broker.alarms.subscribe(self.alarm_changed)

    def release(self) -> None:
        """Let go of everything in the core: channels first, then exclusive queues."""
        for channel in list(self.channels.values()):
            if not channel.closing:
                channel.release()
        self.channels.clear()
        self.confirming.clear()
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
