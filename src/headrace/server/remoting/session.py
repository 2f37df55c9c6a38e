"""One RocketMQ connection: bytes in, requests to handlers, responses out in any order.

A plain class, driven by a transport (server/listener.py). Responses to sends wait until the
messages are on disk; long polls wait without delaying other requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Protocol

from headrace.core.access.user import User
from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.topics.exchange_bridge import topic_exchange_name
from headrace.errors import BrokerError, FatalError, InternalError, LoginRefused
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import CLOSE_SECONDS, BaseSession
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.command import NO_FIELDS, ONEWAY, Command
from headrace.wire.remoting.error_codes import code_of
from headrace.wire.remoting.frames import Reader, command_bytes, head_bytes
from headrace.wire.remoting.message_ids import HostAddress, as_v4

if TYPE_CHECKING:
    from headrace.server.listener import ServerTransport

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60  # twice that without a byte, and the connection is closed
FRAME_SPARE = 1 << 20  # room for a header beside the largest body
CLIENT_FRAME_MAX = 16 << 20  # what clients of all languages read by default
RESPONSE_MAX = CLIENT_FRAME_MAX - (64 << 10)  # bytes of a body, beside its header
ACTIONS = (READ, WRITE, CONFIGURE)


@dataclass(frozen=True, slots=True)
class RemotingSettings:
    """How the broker presents itself to RocketMQ clients."""

    user: str  # the user of clients that do not sign
    port: int = 0  # of the broker
    cluster: str = "DefaultCluster"
    broker_name: str = "headrace"
    advertise_host: str | None = None  # None: the address to which the client connected
    auto_create: bool = True
    max_message: int = 4 << 20
    pull_limit: int = 32  # messages
    frame_max: int = CLIENT_FRAME_MAX + FRAME_SPARE


class RequestServer(Protocol):
    """What serves the requests of sessions."""

    @property
    def broker(self) -> Broker: ...
    @property
    def settings(self) -> RemotingSettings: ...
    def serve(self, session: Session, request: Command) -> None: ...
    def take_response(self, session: Session, response: Command) -> None: ...
    def disconnected(self, session: Session) -> None: ...


class Session(BaseSession):
    """State of one connection."""

    protocol = "RocketMQ"
    __slots__ = (
        "_opaques", "_server", "ahead", "born_host", "is_signed", "reader", "refused_logins",
        "store_host"
    )  # fmt: skip

    def __init__(self, server: RequestServer, transport: ServerTransport) -> None:
        super().__init__(server.broker, transport)
        settings = server.settings
        self._server = server
        # The producer's address and the broker's, as they stand in messages. Some clients can only
        # read IPv4 there.
        self.born_host = as_v4(HostAddress(transport.peer_host, transport.peer_port))
        self.store_host = as_v4(
            HostAddress(settings.advertise_host or transport.host, settings.port)
        )
        self.is_signed = False  # the user is proved by a signature
        # A client that is not identified yet may send one message, not a larger frame.
        self.reader = Reader(min(settings.max_message + FRAME_SPARE, settings.frame_max))
        self._opaques = count(1)
        self.refused_logins: set[str] = set()
        self.ahead: set[str] = set()  # topics pulled from behind their end: logged once

    # -- input ----------------------------------------------------------------------------------

    def parse(self, data: bytes) -> Iterator[Command]:
        if self.closing:
            return
        yield from self.reader.feed(data)
        if self.reader.fault is not None:
            self._end(self.reader.fault)

    @property
    def unfinished(self) -> int:
        return self.reader.unfinished

    def take(self, event: Command) -> None:
        if self.closing:
            return
        if event.is_response:
            self._server.take_response(self, event)
        else:
            self.guard(event, partial(self._server.serve, self, event))

    def guard(self, command: Command, work: Callable[[], None]) -> None:
        """Do work for a request; an error it raises is the response."""
        try:
            work()
        except BrokerError as error:
            self.refuse(command, error)
        except Exception:
            logger.exception("unexpected failure on %s", self.transport.name)
            self.refuse(command, InternalError("unexpected failure; see the broker's log"))

    def admit(self, user: User, request: Command) -> None:
        """There is no handshake: the first request is the login."""
        is_first = self.vhost is None
        if is_first or user is not self.user:
            self.user, self.vhost = self.broker.admit(user, DEFAULT_VHOST)
        if is_first:
            self._open(request)

    def _open(self, command: Command) -> None:
        self.transport.authenticated()
        self.reader.frame_max = self._server.settings.frame_max
        self.opened()
        self.start_heartbeat(IDLE_SECONDS)
        logger.info(
            "connection %s opened: user '%s', RocketMQ client in %s, version %d",
            self.transport.name,
            self.user.name,
            command.language.name,
            command.version,
        )

    # -- output ---------------------------------------------------------------------------------

    def send_request(
        self, code: int, ext: Mapping[str, str], body: bytes = b"", *, oneway: bool = False
    ) -> int:
        """A request of the broker to the client, at the end of this turn; its number."""
        opaque = next(self._opaques) & 0x7FFFFFFF
        if not self.closed:
            flag = ONEWAY if oneway else 0
            self.send_bytes(command_bytes(Command(code, ext, body, opaque=opaque, flag=flag)))
        return opaque

    def respond(
        self,
        request: Command,
        code: int = 0,
        ext: Mapping[str, str] = NO_FIELDS,
        body: bytes = b"",
        remark: str | None = None,
        position: int = 0,
    ) -> None:
        """Respond once the log has reached ``position``; not at all to a one-way request."""
        if request.is_oneway or self.closed:
            return
        if len(body) > RESPONSE_MAX:
            code, ext, body, position = ResponseCode.SYSTEM_ERROR, NO_FIELDS, b"", 0
            remark = f"the response has more than {RESPONSE_MAX} bytes, which clients cannot read"
        self.send_when_durable(position, command_bytes(request.answer(code, ext, body, remark)))

    def respond_with(
        self, request: Command, ext: Mapping[str, str], pieces: list[bytes], remark: str
    ) -> None:
        """Respond with a body in pieces, which are joined only once."""
        if self.closed:
            return
        answer = request.answer(0, ext, remark=remark)
        size = sum(map(len, pieces))
        self.send_bytes(b"".join([head_bytes(answer, size), *pieces]))

    def refuse(self, request: Command, error: BrokerError) -> None:
        """Respond with an error; the connection stays open."""
        reasons = self.refused_logins
        if isinstance(error, LoginRefused) and str(error) not in reasons and len(reasons) < 10:
            # Clients hide the reason. Each is logged once: they repeat the same request.
            reasons.add(str(error))
            logger.info("%s: request %d refused: %s", self.transport.name, request.code, error)
        elif isinstance(error, InternalError) or not request.is_oneway:
            logger.debug("%s: request %d refused: %s", self.transport.name, request.code, error)
        self.respond(request, code_of(error), remark=str(error))

    # -- rights ---------------------------------------------------------------------------------

    def check_topic_right(self, action: str, topic: str) -> None:
        """Raise AccessRefused unless the user may do this with the topic."""
        self.check(action, "topic", topic_exchange_name(topic))

    def may_use_topic(self, topic: str) -> bool:
        """Whether the user may do anything with the topic."""
        vhost, name = self.open_vhost.name, topic_exchange_name(topic)
        return any(self.user.allows(vhost, action, name) for action in ACTIONS)

    def clear_permission_cache(self) -> None:
        """Permissions are not cached: every request checks them."""

    def open_channels(self) -> list[BaseChannel]:
        return []

    @property
    def channel_count(self) -> int:
        return 1

    # -- life -----------------------------------------------------------------------------------

    def _end(self, error: FatalError) -> None:
        """The start of the next frame is unknown: the connection ends."""
        logger.warning("connection %s closed: %s", self.transport.name, error)
        self.closing = self.ending = True  # once everything before the fault is answered
        self.release()
        self.transport.close_after(CLOSE_SECONDS)
        self.output.mark()

    def force_close(self, reason: str) -> None:
        """The protocol has no close command; clients reconnect by themselves."""
        logger.info("connection %s closed: %s", self.transport.name, reason)
        self.closing = True
        self.drop_promises()
        self.release()
        self.transport.close()

    def release_channels(self) -> None:
        self._server.disconnected(self)
