"""One RocketMQ connection: bytes in, requests to handlers, answers out in any order.

A plain class, driven by a transport (server/listener.py). Answers to sends wait until the messages
are on disk; held pulls wait without holding anybody else.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from headrace.core.access.user import User
from headrace.core.broker import DEFAULT_VHOST
from headrace.errors import BrokerError, FatalError, InternalError
from headrace.model.permissions import CONFIGURE, READ, WRITE
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import CLOSE_SECONDS, BaseSession
from headrace.server.remoting.authentication import identify
from headrace.server.remoting.handlers import dispatch
from headrace.wire.remoting.command import NO_FIELDS, Command
from headrace.wire.remoting.error_codes import code_of
from headrace.wire.remoting.frames import Reader, command_bytes, head_bytes
from headrace.wire.remoting.message_ids import HostAddress, as_v4

if TYPE_CHECKING:
    from headrace.server.listener import ServerTransport
    from headrace.server.remoting.state import RemotingState

logger = logging.getLogger(__name__)

IDLE_SECONDS = 60  # twice that without a byte, and the connection is closed
FIRST_FRAME_MAX = 1 << 20  # bytes of the first frame, from somebody nobody knows yet
ACTIONS = (READ, WRITE, CONFIGURE)
EXCHANGE_PREFIX = "topic."  # a topic's permissions are those of its exchange


class Session(BaseSession):
    """State of one connection."""

    protocol = "RocketMQ"
    __slots__ = ("_opaques", "_waiting", "ahead", "born_host", "hub", "is_signed", "reader")

    def __init__(self, hub: RemotingState, transport: ServerTransport) -> None:
        super().__init__(hub.broker, transport)
        self.hub = hub
        self.born_host = as_v4(
            HostAddress(transport.peer_host, transport.peer_port)
        )  # as messages name the producer
        self.is_signed = False  # the user was proved by a signature
        self.reader = Reader(min(FIRST_FRAME_MAX, hub.settings.frame_max))
        self._waiting: deque[tuple[int, bytes]] = deque()  # (position in the journal, answer)
        self._opaques = count(1)
        self.ahead: set[str] = set()  # topics of which it has seen more than there is: logged once

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
        if not self.closing:
            self._take(event)

    def _take(self, command: Command) -> None:
        if command.is_response:
            self.hub.relays.answered(self, command)
            return
        self.guard(command, partial(self._carry_out, command))

    def _carry_out(self, command: Command) -> None:
        user = identify(self, command)
        if self.vhost is None:
            self._enter(command, user)
        elif user is not self.user:
            self.user, self.vhost = self.broker.admit(user, DEFAULT_VHOST)
        dispatch(self, command)

    def guard(self, command: Command, work: Callable[[], None]) -> None:
        """Do work for a request; what it raises is the answer."""
        try:
            work()
        except BrokerError as error:
            self.refuse(command, error)
        except Exception:
            logger.exception("unexpected failure on %s", self.transport.name)
            self.refuse(command, InternalError("unexpected failure; see the broker's log"))

    def _enter(self, command: Command, user: User) -> None:
        """There is no handshake: the first request is the login."""
        self.user, self.vhost = self.broker.admit(user, DEFAULT_VHOST)
        self.transport.authenticated()
        self.reader.frame_max = self.hub.settings.frame_max
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

    def send_command(self, command: Command) -> None:
        """A request of ours, or an answer, at the end of this turn."""
        if not self.closed:
            self.send_bytes(command_bytes(command))

    def next_opaque(self) -> int:
        return next(self._opaques) & 0x7FFFFFFF

    def respond(
        self,
        request: Command,
        code: int = 0,
        ext: Mapping[str, str] = NO_FIELDS,
        body: bytes = b"",
        remark: str | None = None,
        position: int = 0,
    ) -> None:
        """Answer, once the journal has reached ``position``; not at all when nobody wants it."""
        if request.is_oneway or self.closed:
            return
        data = command_bytes(request.answer(code, ext, body, remark))
        if position:
            self._waiting.append((position, data))
            if not self.marked:
                self.turn.mark_session(self)
        else:
            self.send_bytes(data)

    def respond_with(
        self, request: Command, ext: Mapping[str, str], pieces: list[bytes], remark: str
    ) -> None:
        """Answer with a body in pieces, which are joined only once."""
        if self.closed:
            return
        answer = request.answer(0, ext, remark=remark)
        size = sum(map(len, pieces))
        self.send_bytes(b"".join([head_bytes(answer, size), *pieces]))

    def refuse(self, request: Command, error: BrokerError) -> None:
        """Tell what went wrong; the connection lives on."""
        if isinstance(error, InternalError) or not request.is_oneway:
            logger.debug("%s: request %d refused: %s", self.transport.name, request.code, error)
        self.respond(request, code_of(error), remark=str(error))

    def confirm_publishes(self) -> bool:
        waiting, durable = self._waiting, self.broker.storage.durable
        while waiting and waiting[0][0] <= durable:
            self.out.append(waiting.popleft()[1])
        return bool(waiting)

    # -- rights ---------------------------------------------------------------------------------

    def check_topic_right(self, action: str, topic: str) -> None:
        """Raise AccessRefused unless the user may do this with the topic."""
        self.check(action, "topic", EXCHANGE_PREFIX + topic)

    def may_use_topic(self, topic: str) -> bool:
        """Whether the user may do anything with the topic."""
        vhost, name = self.open_vhost.name, EXCHANGE_PREFIX + topic
        return any(self.user.allows(vhost, action, name) for action in ACTIONS)

    def clear_permission_cache(self) -> None:
        """Every request asks anew."""

    def open_channels(self) -> list[BaseChannel]:
        return []

    @property
    def channel_count(self) -> int:
        return 1

    # -- life -----------------------------------------------------------------------------------

    def _end(self, error: FatalError) -> None:
        """Nobody knows where the next frame begins: the connection ends."""
        logger.warning("connection %s closed: %s", self.transport.name, error)
        self.closing = self.ending = True  # once everything before the fault is answered
        self.release()
        self.transport.close_after(CLOSE_SECONDS)
        if not self.marked:
            self.turn.mark_session(self)

    def force_close(self, reason: str) -> None:
        """There is no goodbye in this protocol; clients connect again by themselves."""
        logger.info("connection %s closed: %s", self.transport.name, reason)
        self.closing = True
        self.drop_promises()
        self.release()
        self.transport.close()

    def release_channels(self) -> None:
        self.hub.lose(self)

    def lost(self) -> None:
        super().lost()
        self._waiting.clear()
