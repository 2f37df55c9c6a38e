"""The beginning of a native connection: the hello, which must be the first frame.

Before the reply the client is unknown: small frames and little time.
"""

from __future__ import annotations

import logging

from headrace import __version__
from headrace.core.access.user import User
from headrace.errors import BrokerError, Unsupported
from headrace.server.native.session import Session
from headrace.server.tls import certificate_name
from headrace.wire.native.payloads import MAX_ARRAY, MAX_NAME, VERSION, Op, Request

logger = logging.getLogger(__name__)


def hello(session: Session, request: Request) -> None:
    """Log in and enter the vhost, or raise; the connection ends then."""
    assert request.kind == Op.HELLO, "the reader takes nothing else first"
    version = request.whole("version")
    if version != VERSION:
        raise Unsupported(f"version {version}; this broker speaks version {VERSION}")
    vhost_name, client = request.text("vhost", "/"), request.text("client", "")
    if request.fields.get("user") is None and session.transport.certificate:
        session.mechanism = "EXTERNAL"
        name = certificate_name(session.transport.certificate, session.config.tls_user_from) or ""
        user = session.broker.users.authenticate_certificate(name, session.transport.peer_host)
        _enter(session, request, user, vhost_name, client)
        return
    session.mechanism = "PLAIN"
    name, password = request.text("user"), request.text("password")
    login = session.broker.users.authenticate(name, password, session.transport.peer_host)

    def logged_in(outcome: User | BrokerError) -> None:
        try:
            if not isinstance(outcome, User):
                raise outcome
            _enter(session, request, outcome, vhost_name, client)
        except BrokerError as error:
            session.refuse(request, error)

    session.wait_for(login, logged_in)


def _enter(session: Session, request: Request, user: User, vhost_name: str, client: str) -> None:
    session.transport.authenticated()
    session.user, session.vhost = session.broker.admit(user, vhost_name)
    session.client_properties = _properties(client)
    config = session.config
    session.reader.frame_max = session.frame_max
    session.opened()
    session.start_heartbeat(config.heartbeat)
    session.respond(
        request,
        version=VERSION,
        server=f"Headrace {__version__}",
        limits={
            "frame_max": session.frame_max,
            "max_message": config.max_message_size,
            "heartbeat": config.heartbeat,
            "channel_max": config.channel_max,
            "batch_max": MAX_ARRAY,
        },
    )
    logger.info(
        "connection %s opened: user %r, vhost %r, native client %.80r",
        session.transport.name,
        session.user.name,
        session.vhost.name,
        client,
    )


def _properties(client: str) -> dict[str, str]:
    """As an AMQP client names them, from `headrace-python 0.1.0 worker.py[4711]`."""
    words = client[:MAX_NAME].split(" ", 2)
    return dict(zip(("product", "version", "process"), words, strict=False)) if client else {}
