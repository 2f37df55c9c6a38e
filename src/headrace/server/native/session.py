"""One native connection: bytes in, requests to handlers, bytes out, errors to answers.

A plain class, driven by a transport (server/listener.py). Output is collected and written once
per turn of the loop; answers to publishes wait until the messages are on disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.broker import Broker
from headrace.errors import BrokerError, ConnectionForced, InternalError, LoginRefused
from headrace.server.native.channel import Channel
from headrace.server.native.dispatch import dispatch
from headrace.server.native.handshake import HELLO_MAX, REFUSAL_SECONDS, Limits
from headrace.server.native.publishing import Publisher
from headrace.server.native.refusals import code_of, ends_connection
from headrace.server.peer import Peer
from headrace.wire.native.frames import Reader
from headrace.wire.native.messages import Op, Request, message, unpack
from headrace.wire.native.pushes import Pieces

if TYPE_CHECKING:
    from headrace.server.listener import Link

logger = logging.getLogger(__name__)

GOODBYE_SECONDS = 1.0
Handler = Callable[["Session", Channel, Request], None]


class Session(Peer):
    """State of one connection, from the hello to the end."""

    __slots__ = ("_ended", "_waiting", "channels", "limits", "pieces", "publisher", "reader")

    def __init__(self, broker: Broker, limits: Limits, link: Link) -> None:
        super().__init__(broker, link)
        self.limits = limits
        self.reader = Reader(min(HELLO_MAX, limits.frame_max), first=Op.HELLO)
        self.channels: dict[int | str, Channel] = {}
        self.publisher = Publisher(self)
        self.pieces = Pieces()
        self._waiting: deque[tuple[int, bytes]] = deque()  # (position in the journal, answer)
        self._ended = False  # the last byte is written

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the peer. Never raises."""
        self.count_received(len(data))
        if self.closing:
            return
        for kind, payload in self.reader.feed(data):
            self._take(kind, payload)
            if self.closing:
                return
        if self.reader.fault is not None:
            self._end(0, self.reader.fault)

    def _take(self, kind: int, payload: bytes) -> None:
        request: Request | None = None
        rid, ch = None, None
        try:
            fields = unpack(payload)
            rid, ch = fields.get("rid"), fields.get("ch")
            request = Request(kind, fields)
            dispatch(self, request)
            self.ticket = self.broker.storage.issued
        except BrokerError as error:
            self._fail(kind, rid, ch, error)
        except Exception:
            logger.exception("unexpected failure on %s", self.link.name)
            self._fail(kind, rid, ch, InternalError("unexpected failure; see the broker's log"))

    # -- errors ---------------------------------------------------------------------------------

    def _fail(self, kind: int, rid: object, ch: object, error: BrokerError) -> None:
        """Tell the peer what went wrong; some errors end the connection."""
        if self.vhost is None or ends_connection(error):
            self._end(kind, error, rid, ch)
        else:
            self.send_bytes(message(kind, _refusal(rid, ch, error)))

    def _end(self, kind: int, error: BrokerError, rid: object = None, ch: object = None) -> None:
        """The last answer, and the end of the connection."""
        if self.closing or self.closed:
            return
        if not isinstance(error, ConnectionForced):
            logger.warning("connection %s closed: %s", self.link.name, error)
        if self.broker.storage.has_failed:
            self.drop_promises()
            self._waiting.clear()
        self.closing = True
        self.release()
        fields = _refusal(rid, ch, error) | {"closed": True}
        self.link.resume_reading("alarm")
        if isinstance(error, LoginRefused):
            self.link.call_later(REFUSAL_SECONDS, lambda: self._say_last(kind, fields))
        else:
            self._say_last(kind, fields)

    def _say_last(self, kind: int, fields: dict[str, object]) -> None:
        if not self.closed:
            self._ended = True
            self.send_bytes(message(kind, fields))

    def force_close(self, reason: str) -> None:
        if self.vhost is None:
            self.link.abort()
        else:
            self._end(Op.HELLO, ConnectionForced(reason))

    # -- output ---------------------------------------------------------------------------------

    def respond(self, request: Request, **fields: object) -> None:
        self.send_bytes(_answer(request, fields))

    def respond_when_durable(
        self,
        request: Request,
        position: int,
        error: BrokerError | None = None,
        **fields: object,
    ) -> None:
        """Answer a publish once the journal has reached ``position`` (0 = at once)."""
        if error is not None:
            fields |= {"ok": False, "code": code_of(error), "text": str(error)}
        data = _answer(request, fields)
        if position:
            self._waiting.append((position, data))
            if not self.marked:
                self.turn.mark_session(self)
        else:
            self.send_bytes(data)

    def answer_publishers(self) -> bool:
        waiting, durable = self._waiting, self.broker.storage.durable
        while waiting and waiting[0][0] <= durable:
            self.out.append(waiting.popleft()[1])
        return bool(waiting)

    def flush(self) -> None:
        super().flush()
        if self._ended and not self.out and not self._waiting and not self.closed:
            self.link.end_output(GOODBYE_SECONDS)
            self._ended = False

    # -- life -----------------------------------------------------------------------------------

    def release_channels(self) -> None:
        for channel in self.channels.values():
            channel.release()
        self.channels.clear()

    def lost(self) -> None:
        super().lost()
        self._waiting.clear()


def _answer(request: Request, fields: dict[str, object]) -> bytes:
    return message(request.kind, {"rid": request.rid, "ch": request.ch, "ok": True, **fields})


def _refusal(rid: object, ch: object, error: BrokerError) -> dict[str, object]:
    known = {"rid": rid, "ch": ch}
    shown = {name: one if type(one) in (int, str) else None for name, one in known.items()}
    return {**shown, "ok": False, "code": code_of(error), "text": str(error)}
