"""Requests that were handed on to clients and are not answered yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.clock import Timer, Timers
from headrace.errors import PreconditionFailed
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session

_SIGNING = (ACCESS_KEY, SECURITY_TOKEN, SIGNATURE)
LIMIT_MS = 10_000
MAX_WAITING = 1000


class RelayedRequest(NamedTuple):
    """Who has asked, and until when there is hope."""

    asking: Session
    request: Command
    timer: Timer


class RelayedRequests:
    """Requests that clients have not answered yet."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[tuple[Session, int], RelayedRequest] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def hand_on(self, asking: Session, client: Session, request: Command, body: bytes) -> None:
        """PreconditionFailed when too many are under way."""
        if len(self._waiting) >= MAX_WAITING:
            raise PreconditionFailed(f"{MAX_WAITING} requests wait for clients; ask again later")
        place = client, client.next_opaque()
        timer = self._timers.after(LIMIT_MS, lambda: self._give_up(place))
        self._waiting[place] = RelayedRequest(asking, request, timer)
        client.send_command(Command(request.code, _unsigned(request.ext), body, opaque=place[1]))

    def answered(self, client: Session, answer: Command) -> None:
        """A client has answered something; what nobody has asked is nobody's concern."""
        found = self._waiting.pop((client, answer.opaque), None)
        if found is not None:
            found.timer.cancel()
            found.asking.respond(found.request, answer.code, answer.ext, answer.body, answer.remark)

    def drop(self, session: Session) -> None:
        """A connection is gone: it answers no more, and waits for nothing."""
        for place, waiting in list(self._waiting.items()):
            if place[0] is session:
                self._end(place, ResponseCode.SYSTEM_ERROR, "the client is gone")
            elif waiting.asking is session:
                waiting.timer.cancel()
                del self._waiting[place]

    def _give_up(self, place: tuple[Session, int]) -> None:
        text = f"the client has not answered within {LIMIT_MS // 1000} s"
        self._end(place, ResponseCode.CONSUME_MSG_TIMEOUT, text)

    def _end(self, place: tuple[Session, int], code: int, remark: str) -> None:
        waiting = self._waiting.pop(place)
        waiting.timer.cancel()
        waiting.asking.respond(waiting.request, code, remark=remark)


def _unsigned(ext: Mapping[str, str]) -> dict[str, str]:
    """Signatures are between the console and us."""
    return {name: value for name, value in ext.items() if name not in _SIGNING}
