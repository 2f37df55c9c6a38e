"""Pipelines say how they are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import PreconditionFailed
from headrace.model.permissions import READ
from headrace.server.native.channel import Channel
from headrace.wire.native.payloads import Op, Request, pack

if TYPE_CHECKING:
    from headrace.server.native.session import Handler, Session

MAX_STATE = 64 << 10


def _tell(session: Session, channel: Channel, request: Request) -> None:
    name, state = request.name("name"), request.table("state")
    session.check(READ, "pipeline", name)
    if len(pack(state)) > MAX_STATE:
        raise PreconditionFailed(f"the state of a pipeline has at most {MAX_STATE} bytes")
    session.open_vhost.pipelines.tell(name, state)
    session.respond(request)


HANDLERS: dict[int, Handler] = {Op.TELL_PIPELINE: _tell}
