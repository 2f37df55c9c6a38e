"""Request code to handler. Both ports serve the codes of name server and broker."""

from __future__ import annotations

from headrace.core.broker import Broker
from headrace.errors import PreconditionFailed, Unsupported
from headrace.server.remoting import (
    admin,
    client_requests,
    group_settings,
    membership,
    name_server,
    offsets,
    pull,
    query,
    retry_topics,
    send,
    statistics,
)
from headrace.server.remoting.authentication import check_standing, identify
from headrace.server.remoting.session import RemotingSettings, Session
from headrace.server.remoting.state import Handler, RemotingState
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import SEND_CODES

_CODES = frozenset(RequestCode)
BODY_MAX = 1 << 16  # bytes of JSON, which is decoded on the loop

HANDLERS: dict[int, Handler] = {
    **name_server.HANDLERS,
    **send.HANDLERS,
    **retry_topics.HANDLERS,
    **pull.HANDLERS,
    **offsets.HANDLERS,
    **membership.HANDLERS,
    **query.HANDLERS,
    **admin.HANDLERS,
    **group_settings.HANDLERS,
    **statistics.HANDLERS,
    **client_requests.HANDLERS,
}


def _named(code: int) -> str:
    return f" ({RequestCode(code).name})" if code in _CODES else ""


class RequestHandlers:
    """Serves the requests of all sessions: who asks, whether that is allowed, the handler."""

    def __init__(self, broker: Broker, settings: RemotingSettings) -> None:
        self.broker = broker
        self.settings = settings
        self.state = RemotingState(broker, settings)

    def serve(self, session: Session, request: Command) -> None:
        """Carry out one request; raises the error to respond with."""
        session.admit(identify(session, request, self.settings.user), request)
        code, size = request.code, len(request.body)
        handler = HANDLERS.get(code)
        if handler is None:
            raise Unsupported(f"request code {code}{_named(code)} is not supported")
        check_standing(session, code)
        if size > BODY_MAX and code not in SEND_CODES:  # those carry messages
            raise PreconditionFailed(f"a body of {size} bytes; {BODY_MAX} are allowed")
        handler(self.state, session, request)

    def take_response(self, session: Session, response: Command) -> None:
        self.state.relayed_requests.take_response(session, response)

    def disconnected(self, session: Session) -> None:
        self.state.disconnected(session)
