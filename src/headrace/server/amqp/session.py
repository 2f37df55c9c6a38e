"""One AMQP connection: bytes in, events to channels, bytes out, errors to close methods.

A plain class, driven by a transport (server/listener.py); all it knows of the network is write(),
close(), abort() and pausing. Output is collected and written once per turn of the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import Struct
from typing import Any

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.errors import (
    BrokerError,
    ChannelError,
    ChannelStateError,
    ConnectionForced,
    FatalError,
    InternalError,
)
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.confirms import answer_frame
from headrace.server.amqp.handshake import FRAME_MIN, Handshake
from headrace.server.amqp.publisher import PUBLISHES, STRETCH, Publisher, join_stretches
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.listener import ServerTransport
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.error_codes import reply_of
from headrace.wire.amqp.method_codec import Method, decode_method, method_frame
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

logger = logging.getLogger(__name__)

CLOSE_OK_SECONDS = 3.0
_HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
BASIC = 60  # the class of methods that concern messages
_PUBLISH_IDS = (60, 40)
_ACK_IDS = (60, 80)
_ids = Struct(">HH").unpack_from


# Carries out one method; raises what the client did wrong. Given by handlers, which import this.
Dispatch = Callable[["Session", int, Channel | None, Method], None]


class Session(BaseSession):
    """State of one connection, from the protocol header to the end."""

    protocol = "AMQP 0-9-1"
    __slots__ = (
        "_dispatch",
        "channel_max",
        "channels",
        "client_properties",
        "config",
        "confirming",
        "frame_max",
        "handshake",
        "notices",
        "notify_blocked",
        "notify_cancel",
        "publisher",
        "reader",
        "small_frames",
    )

    def __init__(
        self,
        broker: Broker,
        config: Config,
        transport: ServerTransport,
        dispatch: Dispatch,
    ) -> None:
        super().__init__(broker, transport)
        self._dispatch = dispatch
        self.config = config
        self.reader = Reader(FRAME_MIN, config.max_message_size, config.frame_max - 8)
        self.handshake: Handshake | None = Handshake(self)
        self.client_properties: Mapping[str, Any] = {}
        self.notify_cancel = False
        self.notify_blocked = False
        self.notices: list[bytes] | None = None  # while an answer has to go out before them
        self.channels: dict[int, Channel] = {}
        self.publisher = Publisher(self)
        self.confirming: set[Channel] = set()
        self.frame_max = FRAME_MIN
        self.channel_max = config.channel_max
        self.small_frames = False  # the peer wants smaller frames than others may have sent

    # -- input ----------------------------------------------------------------------------------

    def parse(self, data: bytes) -> list[Event]:
        if self.handshake is not None:
            rest = self.handshake.take_header(data)
            if rest is None:
                return []
            data = rest
        events = self.reader.feed(data)
        return join_stretches(events) if len(events) > STRETCH else events

    @property
    def unfinished(self) -> int:
        return self.reader.unfinished

    def take(self, event: Event) -> None:
        if self.closing:
            self._while_closing(event)
            return
        kind = event[0]
        if kind == FAULT:
            self._fail(event[1], 0, (0, 0))
            return
        channel = self.channels.get(event[1])
        if kind == METHOD:
            self._method(event[1], channel, event[2])
        elif channel is None or self.handshake is not None:
            self._fail(ChannelStateError("expected 'channel.open'"), 0, (0, 0))
        elif not channel.closing:
            self._message(channel, kind, event)

    def _message(self, channel: Channel, kind: int, event: Event) -> None:
        """The events that are not methods: publishes and acks, in runs."""
        try:
            if kind == PUBLISH:
                self.note_publish()
                self.publisher.publish(channel, *event[2:])
                self.wait_for_commit()
            elif kind == PUBLISHES:
                self.note_publish()
                if self.publisher.publish_stretch(channel, event[2]):
                    self.wait_for_commit()
                else:
                    self.take_first(event[2])
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
        assert channel.transaction is not None
        tags = channel.claim(event[2], None if kind == ACK_UPTO else event[3])
        channel.transaction.settle(tags, None)

    def _method(self, number: int, channel: Channel | None, payload: bytes) -> None:
        ids = _ids(payload)
        vhost, storage = self.vhost, self.broker.storage
        created, declared = vhost.created if vhost is not None else 0, storage.declared
        try:
            self._dispatch(self, number, channel, decode_method(payload))
            if vhost is not None:
                self.note_created(created)
            # Answers about messages do not wait for what others have declared meanwhile.
            has_declared = storage.declared != declared
            if has_declared or ids[0] != BASIC:
                self.metadata_version = storage.declared
            if has_declared:
                self.wait_for_metadata()
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
            self.transport.close()
        elif ids == (10, 51):
            self.transport.close()

    # -- errors ---------------------------------------------------------------------------------

    def _fail(self, error: BrokerError, number: int, ids: tuple[int, int]) -> None:
        """Report an error to the client: on the channel if that is enough."""
        channel = self.channels.get(number)
        if isinstance(error, ChannelError) and channel is not None:
            self.close_channel(channel, error, ids)
        elif self.handshake is not None:
            self.handshake.refuse(error)
        else:
            self.close(error, ids)

    def fail(self, error: Exception, number: int, wire_id: int) -> None:
        """A request that was carried out over several turns has failed."""
        ids = (wire_id >> 16, wire_id & 0xFFFF)
        if isinstance(error, BrokerError):
            self._fail(error, number, ids)
        else:
            self._bug(number, ids, error)

    def _bug(self, number: int, ids: tuple[int, int], error: Exception | None = None) -> None:
        text = "unexpected failure on %s channel %d"
        logger.error(text, self.transport.name, number, exc_info=error or True)
        self._fail(InternalError("unexpected failure; see the broker's log"), number, ids)

    def close_channel(self, channel: Channel, error: BrokerError, ids: tuple[int, int]) -> None:
        """Close the channel from our side; it is free again once the peer has answered."""
        logger.info("channel %d of %s closed: %s", channel.number, self.transport.name, error)
        self.send_confirms(channel)
        channel.release()
        self.send(channel.number, m.ChannelClose(*reply_of(error), *ids))

    def close(self, error: BrokerError, ids: tuple[int, int] = (0, 0)) -> None:
        """Close the connection from our side."""
        if self.closing or self.closed:
            return
        if isinstance(error, FatalError) and not isinstance(error, ConnectionForced):
            logger.warning("connection %s closed: %s", self.transport.name, error)
        if self.broker.storage.has_failed:
            self.drop_promises()
        for channel in self.channels.values():
            self.send_confirms(channel)
        self.release()
        self.closing = True
        self.send(0, m.ConnectionClose(*reply_of(error), *ids))
        self.flush()
        self.unblock()
        self.transport.close_after(CLOSE_OK_SECONDS)

    def force_close(self, reason: str) -> None:
        """An operator, or the end of the broker."""
        if self.handshake is not None:
            self.transport.abort()
        else:
            self.close(ConnectionForced(reason))

    # -- output ---------------------------------------------------------------------------------

    def send(self, channel: int, method: Method) -> None:
        self.send_bytes(method_frame(channel, method))

    def notify(self, channel: int, method: Method) -> None:
        """Send a method that is no reply to a request."""
        if self.notices is None:
            self.send(channel, method)
        else:
            self.notices.append(method_frame(channel, method))

    @contextmanager
    def answer_first(self) -> Iterator[None]:
        """Inside, an answer is sent before the notices of what it caused, as RabbitMQ does.

        Some clients stumble over the end of their own consumer while they wait for the answer.
        """
        self.notices = notices = list[bytes]()
        try:
            yield
        finally:
            self.notices = None
            for notice in notices:
                self.send_bytes(notice)

    def send_confirms(self, channel: Channel) -> None:
        """Confirm what was published on the channel and is safe."""
        confirms = channel.confirms
        if confirms is not None:
            answered = confirms.answered
            for answer in confirms.take_answers(self.broker.storage.durable):
                self.output.parts.append(answer_frame(channel.number, answer))
            self.open_vhost.counters.confirmed += confirms.answered - answered
        if confirms is None or not confirms.is_waiting:
            self.confirming.discard(channel)

    def confirm_publishes(self) -> bool:
        if self.confirming:
            for channel in tuple(self.confirming):
                self.send_confirms(channel)
        return bool(self.confirming)

    def send_blocked(self, reason: str | None) -> None:
        if self.notify_blocked and reason is not None:
            self.send(0, m.ConnectionBlocked(reason=reason))
        elif self.notify_blocked:
            self.send(0, m.ConnectionUnblocked())

    def send_heartbeat(self) -> None:
        self.transport.write(_HEARTBEAT)  # at once: what is in the output may wait for the disk
        self.sent += len(_HEARTBEAT)

    # -- rights ---------------------------------------------------------------------------------

    def clear_permission_cache(self) -> None:
        self.publisher.forget()

    def open_channels(self) -> list[BaseChannel]:
        return list(self.channels.values())

    # -- life -----------------------------------------------------------------------------------

    def opened(self) -> None:
        self.handshake = None
        super().opened()

    def lost(self) -> None:
        if self.is_open:
            logger.warning("connection %s lost without a close", self.transport.name)
        super().lost()

    def release_channels(self) -> None:
        for channel in list(self.channels.values()):
            if not channel.closing:
                channel.release()
        self.channels.clear()
        self.confirming.clear()
