"""Requests to handlers. Both sets of codes are answered on either port."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

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
from headrace.server.remoting.authentication import check_standing
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import SEND_CODES

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session

BODY_MAX = 1 << 16  # bytes of JSON, which is decoded on the loop
_CARRIERS = SEND_CODES  # requests with the body of a message
Handler: TypeAlias = Callable[["Session", Command], None]


def dispatch(session: Session, request: Command) -> None:
    """Carry out one request. Raises what the peer did wrong."""
    handler = HANDLERS.get(request.code)
    if handler is None:
        raise Unsupported(f"request code {request.code} is not supported")
    check_standing(session, request.code)
    if len(request.body) > BODY_MAX and request.code not in _CARRIERS:
        raise PreconditionFailed(f"a body of {len(request.body)} bytes; {BODY_MAX} are allowed")
    handler(session, request)


HANDLERS: dict[int, Handler] = {
    **name_server.HANDLERS,
    **send.HANDLERS,
    **pull.HANDLERS,
    **offsets.HANDLERS,
    **retry_topics.HANDLERS,
    **membership.HANDLERS,
    **query.HANDLERS,
    **admin.HANDLERS,
    **group_settings.HANDLERS,
    **statistics.HANDLERS,
    **client_requests.HANDLERS,
}
