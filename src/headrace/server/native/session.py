"""One native connection: bytes in, requests to handlers, bytes out, errors to answers.

A plain class, driven by a transport (server/listener.py). Output is collected and written once
per turn of the loop; answers to publishes wait until the messages are on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from headrace.bulk.fetch_pool import FetchPool, FrameRelay
from headrace.bulk.read_plan import FetchRequest
from headrace.config import Config
from headrace.core.access.user import User
from headrace.core.broker import Broker
from headrace.errors import BrokerError, ConnectionForced, InternalError, LoginLocked, StoreError
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.listener import ServerTransport
from headrace.server.native.channel import Channel
from headrace.server.native.publisher import Publisher
from headrace.wire.native.deliveries import PackedProperties
from headrace.wire.native.error_codes import code_of, ends_connection
from headrace.wire.native.frames import Frame, Reader
from headrace.wire.native.payloads import Op, Request, message, request_size, unpack

logger = logging.getLogger(__name__)

FETCH_AHEAD = 4 << 20  # bytes of bulk reads that wait to be written
HELLO_MAX = 1 << 16  # bytes of a frame before the login
FRAME_SPARE = 1 << 20  # room for properties and names beside the largest body
Handler = Callable[["Session", Channel, Request], None]
# Carries out one request; raises what the client did wrong. Given by handlers, which import this.
Dispatch = Callable[["Session", Request], None]


class Session(BaseSession):
    """State of one connection, from the hello to the end."""

    protocol = "Headrace native"
    __slots__ = (
        "_dispatch",
        "_is_lent",
        "_relays",
        "channels",
        "client_properties",
        "config",
        "frame_max",
        "packed_properties",
        "pool",
        "publisher",
        "reader",
    )

    def __init__(
        self,
        broker: Broker,
        config: Config,
        transport: ServerTransport,
        pool: FetchPool,
        dispatch: Dispatch,
    ) -> None:
        super().__init__(broker, transport)
        self._dispatch = dispatch
        self.pool = pool
        self._relays: dict[FrameRelay, Callable[[], None] | None] = {}
        self._is_lent = False  # only a fetch process writes to the socket
        self.config = config
        # A message must fit into a frame together with its properties.
        self.frame_max = max(config.native_frame_max, config.max_message_size + FRAME_SPARE)
        self.client_properties: Mapping[str, str] = {}
        self.reader = Reader(min(HELLO_MAX, self.frame_max), Op.HELLO, request_size)
        self.channels: dict[int | str, Channel] = {}
        self.publisher = Publisher(self)
        self.packed_properties = PackedProperties()

    # -- input ----------------------------------------------------------------------------------

    def parse(self, data: bytes) -> Iterator[Frame]:
        if self.closing:
            return
        yield from self.reader.feed(data)
        if self.reader.fault is not None:
            self._end(0, self.reader.fault)

    @property
    def unfinished(self) -> int:
        return self.reader.unfinished

    def take(self, event: Frame) -> None:
        if not self.closing:
            self._take(*event)

    def _take(self, kind: int, payload: bytes | memoryview) -> None:
        request: Request | None = None
        rid, ch = None, None
        vhost = self.vhost
        created = vhost.created if vhost is not None else 0
        try:
            fields = unpack(payload)
            rid, ch = fields.get("rid"), fields.get("ch")
            request = Request(kind, fields)
            self._dispatch(self, request)
            self.metadata_version = max(self.metadata_version, self.broker.storage.declared)
            self.wait_for_metadata()
            if vhost is not None:
                self.note_created(created)
        except BrokerError as error:
            self._fail(kind, rid, ch, error)
        except Exception:
            logger.exception("unexpected failure on %s", self.transport.name)
            self._fail(kind, rid, ch, InternalError("unexpected failure; see the broker's log"))

    # -- errors ---------------------------------------------------------------------------------

    def _fail(self, kind: int, rid: object, ch: object, error: BrokerError) -> None:
        """Report an error to the client; some end the connection."""
        if self.vhost is None or ends_connection(error):
            self._end(kind, error, rid, ch)
        else:
            self.send_bytes(message(kind, _refusal(rid, ch, error)))

    def _end(self, kind: int, error: BrokerError, rid: object = None, ch: object = None) -> None:
        """The last answer, and the end of the connection."""
        if self.closing or self.closed:
            return
        if not isinstance(error, ConnectionForced):
            level = logging.DEBUG if isinstance(error, LoginLocked) else logging.WARNING
            logger.log(level, "connection %s closed: %s", self.transport.name, error)
        if self.broker.storage.has_failed:
            self.drop_promises()
        self.closing = True
        self.release()
        fields = _refusal(rid, ch, error) | {"closed": True}
        self.unblock()
        self.ending = True
        self.send_bytes(message(kind, fields))

    def force_close(self, reason: str) -> None:
        if self.vhost is None:
            self.transport.abort()
        else:
            self._end(Op.HELLO, ConnectionForced(reason))

    # -- output ---------------------------------------------------------------------------------

    def respond(self, request: Request, **fields: object) -> None:
        self.send_bytes(_answer(request, fields))

    def refuse(self, request: Request, error: BrokerError) -> None:
        """Answer a request that failed after it was taken."""
        self._fail(request.kind, request.rid, request.ch, error)

    def respond_when_durable(
        self,
        request: Request,
        position: int,
        error: BrokerError | None = None,
        **fields: object,
    ) -> None:
        """Answer a publish once the log has reached ``position`` (0 = at once)."""
        if error is not None:
            fields |= {"ok": False, "code": code_of(error), "text": str(error)}
        self.send_when_durable(position, _answer(request, fields))

    # -- rights ---------------------------------------------------------------------------------

    def clear_permission_cache(self) -> None:
        self.publisher.forget()

    def open_channels(self) -> list[BaseChannel]:
        return list(self.channels.values())

    def rights_changed(self, user: User) -> None:
        super().rights_changed(user)
        for channel in self.channels.values():
            channel.end_reads()

    # -- bulk reads -----------------------------------------------------------------------------

    def fetch(
        self, order: FetchRequest, segments: Sequence[int], again: Callable[[], None] | None
    ) -> None:
        """``again`` is called when the process ends before it has sent anything."""
        self._relays[self.pool.fetch(order, segments, self)] = again
        self._is_lent = self._is_lent or order.is_direct

    def direct_descriptor(self) -> int | None:
        """The socket, for a fetch process that writes to it alone until it has ended; None when
        something else is to be written, or is encrypted."""
        is_free = not self.output.parts and all(one.is_done for one in self._relays)
        return self.transport.direct_descriptor() if is_free else None

    def flush(self) -> None:
        if not self._is_lent:
            super().flush()

    def take_fetched(self, frame: bytes | bytearray, relay: FrameRelay) -> None:
        """One frame of a fetch; the next may come when there is room."""
        self.send_bytes(frame)
        if self.output.is_full or self.output.bytes > FETCH_AHEAD:
            relay.pause()
            self.output.waiting.add(relay)

    def fetch_ended(self, relay: FrameRelay, order: FetchRequest, error: str | None) -> None:
        again = self._relays.pop(relay, None)
        self.output.waiting.discard(relay)
        if order.is_direct:
            self._is_lent = False
            self.output.mark()
            if error is not None and relay.frames:
                self.transport.abort()  # in the middle of a frame, perhaps
                return
        if error is None or self.closing:
            return
        failure: BrokerError = StoreError(error)
        if again is not None and not relay.frames:
            try:
                again()
            except BrokerError as refused:
                failure = refused
            else:
                return
        fields = _refusal(order.rid, order.ch, failure) | {"last": True}
        self.send_bytes(message(order.op, fields))

    # -- life -----------------------------------------------------------------------------------

    def release_channels(self) -> None:
        for channel in self.channels.values():
            channel.release()
        self.channels.clear()
        for relay in self._relays:
            relay.abort()
        self._relays.clear()

    def lost(self) -> None:
        if self.is_open:  # there is no other goodbye in this protocol
            logger.info("connection %s closed by the client", self.transport.name)
        super().lost()


def _answer(request: Request, fields: dict[str, object]) -> bytes:
    return message(request.kind, {"rid": request.rid, "ch": request.ch, "ok": True, **fields})


def _refusal(rid: object, ch: object, error: BrokerError) -> dict[str, object]:
    known = {"rid": rid, "ch": ch}
    shown = {name: one if type(one) in (int, str) else None for name, one in known.items()}
    return {**shown, "ok": False, "code": code_of(error), "text": str(error)}
