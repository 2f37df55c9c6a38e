"""The beginning of a native connection: the hello, which must be the first frame.

Before it is answered the peer is nobody: small frames and little time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.errors import LoginRefused, Unsupported
from headrace.wire.native.messages import MAX_ARRAY, VERSION, Op, Request

if TYPE_CHECKING:
    from headrace.server.native.session import Session

logger = logging.getLogger(__name__)

HELLO_MAX = 1 << 16  # bytes of a frame before the login
FRAME_SPARE = 1 << 20  # room for properties and names beside the largest body
REFUSAL_SECONDS = 0.5  # a wrong password costs the guesser time, not us


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may ask for."""

    frame_max: int
    channel_max: int
    heartbeat: int
    max_message: int
    content_frame_max: int  # of the AMQP frames in which contents are kept


def hello(session: Session, request: Request) -> None:
    """Log in and enter the vhost, or raise; the connection ends then."""
    assert request.kind == Op.HELLO, "the reader takes nothing else first"
    version = request.whole("version")
    if version != VERSION:
        raise Unsupported(f"version {version}; this broker speaks version {VERSION}")
    name, password = request.text("user"), request.text("password")
    vhost_name, client = request.text("vhost", "/"), request.text("client", "")
    user = session.broker.authority.login(name, password, session.link.peer)
    if user is None:
        raise LoginRefused("wrong user or password, or not welcome from this address")
    session.link.authenticated()
    vhost = session.broker.get_vhost(vhost_name)
    user.check_vhost(vhost.name)
    session.user, session.vhost = user, vhost
    limits = session.limits
    session.reader.frame_max = limits.frame_max
    session.opened()
    session.start_heartbeat(limits.heartbeat)
    session.respond(
        request,
        version=VERSION,
        server=f"Headrace {__version__}",
        limits={
            "frame_max": limits.frame_max,
            "max_message": limits.max_message,
            "heartbeat": limits.heartbeat,
            "channel_max": limits.channel_max,
            "batch_max": MAX_ARRAY,
        },
    )
    logger.info(
        "connection %s opened: user '%s', vhost '%s', native client %.80r",
        session.link.name,
        user.name,
        vhost.name,
        client,
    )
