"""The beginning of an AMQP connection: protocol header, login, tuning, vhost.

Before the vhost is open the client is unknown: small frames, little time, and no reply beyond what
the protocol demands.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.core.access.user import User
from headrace.errors import (
    BrokerError,
    FrameError,
    LoginLocked,
    LoginRefused,
    MalformedError,
    NotAllowed,
)
from headrace.server.tls import certificate_name
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import Method
from headrace.wire.amqp.values import decode_table

if TYPE_CHECKING:
    from headrace.server.amqp.session import Session

logger = logging.getLogger(__name__)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
MECHANISMS = b"AMQPLAIN PLAIN"
FRAME_MIN = 4096

# Clients switch features on by these names. `product` and `version` too: kombu and others derive
# from them how prefetch behaves, and Headrace behaves as that version does.
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class Handshake:
    """Lives until connection.open is answered."""

    __slots__ = ("_buffer", "_expected", "_refused", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._buffer: bytes | None = b""  # None once the protocol header is there
        self._refused = False
        self._expected: type[Method] = m.ConnectionStartOk

    def take_header(self, data: bytes) -> bytes | None:
        """Bytes behind the protocol header, or None when there is nothing to read yet."""
        if self._refused:
            return None
        if self._buffer is None:
            return data
        self._buffer += data
        if not PROTOCOL_HEADER.startswith(self._buffer[:8]):
            self._session.transport.write(PROTOCOL_HEADER)
            self._session.transport.close()
            self._refused = True
            return None
        if len(self._buffer) < 8:
            return None
        rest, self._buffer = self._buffer[8:], None
        self._session.send(0, self._start())
        return rest or None

    def _start(self) -> m.ConnectionStart:
        session = self._session
        return m.ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties={
                "product": "RabbitMQ",
                "version": "3.10.8",
                "platform": f"Headrace {__version__}",
                "headrace_version": __version__,
                "copyright": "Headrace contributors",
                "information": "Headrace, compatible with RabbitMQ. Apache License 2.0",
                "cluster_name": session.broker.parameters.cluster_name(session.config.cluster_name),
                "capabilities": dict.fromkeys(_CAPABILITIES, True),
            },
            mechanisms=MECHANISMS + (b" EXTERNAL" if session.transport.certificate else b""),
            locales=b"en_US",
        )

    def take(self, method: Method) -> None:
        """The next step of the dance; anything out of order ends it."""
        if self._refused:
            return
        if isinstance(method, m.ConnectionClose):
            self._session.send(0, m.ConnectionCloseOk())
            self._session.flush()
            self._session.transport.close()
        elif not isinstance(method, self._expected):
            self.refuse(FrameError(f"unexpected {method.name}"))
        elif isinstance(method, m.ConnectionStartOk):
            self._login(method)
        elif isinstance(method, m.ConnectionTuneOk):
            self._tuned(method)
        elif isinstance(method, m.ConnectionOpen):
            self._open(method)

    def refuse(self, error: BrokerError) -> None:
        """Close. Only clients with the capability get the reason of a failed login."""
        if self._refused:
            return
        self._refused = True
        session = self._session
        # One line per lock is written where it is made: a flood of guesses must not fill the log.
        level = logging.DEBUG if isinstance(error, LoginLocked) else logging.WARNING
        logger.log(level, "connection %s refused: %s", session.transport.name, error)
        with_reason = isinstance(error, NotAllowed) or (
            isinstance(error, LoginRefused) and self._wants("authentication_failure_close")
        )
        if with_reason:
            session.close(error, (10, 40) if isinstance(error, NotAllowed) else (0, 0))
        elif isinstance(error, LoginRefused):
            session.transport.abort()
        else:
            session.transport.close()

    def _wants(self, capability: str) -> bool:
        capabilities = self._session.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def _login(self, method: m.ConnectionStartOk) -> None:
        session = self._session
        session.client_properties = method.client_properties
        session.mechanism = method.mechanism
        session.notify_cancel = self._wants("consumer_cancel_notify")
        session.notify_blocked = self._wants("connection.blocked")
        if method.mechanism == "EXTERNAL" and session.transport.certificate:
            self._log_in_by_certificate()
            return
        name, password = _credentials(method.mechanism, method.response)
        login = session.broker.users.authenticate(name, password, session.transport.peer_host)
        session.wait_for(login, lambda outcome: self._logged_in(outcome, method.mechanism, name))

    def _log_in_by_certificate(self) -> None:
        session = self._session
        name = certificate_name(session.transport.certificate, session.config.tls_user_from) or ""
        try:
            user = session.broker.users.authenticate_certificate(name, session.transport.peer_host)
        except LoginRefused as error:
            self._logged_in(error, "EXTERNAL", name)
        else:
            self._welcome(user)

    def _logged_in(self, outcome: User | BrokerError, mechanism: str, name: str) -> None:
        if isinstance(outcome, User):
            self._welcome(outcome)
        elif isinstance(outcome, LoginRefused):
            level = logging.DEBUG if isinstance(outcome, LoginLocked) else logging.WARNING
            logger.log(level, "login of user %.255r refused: %s", name, outcome)
            self.refuse(
                type(outcome)(
                    f"Login was refused using authentication mechanism {mechanism}. For details "
                    "see the broker logfile."
                )
            )
        else:
            self.refuse(outcome)

    def _welcome(self, user: User) -> None:
        session = self._session
        session.user = user
        session.transport.authenticated()
        config = session.config
        tune = m.ConnectionTune(config.channel_max, config.frame_max, config.heartbeat)
        session.send(0, tune)
        self._expected = m.ConnectionTuneOk

    def _tuned(self, method: m.ConnectionTuneOk) -> None:
        session = self._session
        config = session.config
        frame_max = method.frame_max or config.frame_max  # 0: the client has no limit of its own
        channel_max = method.channel_max or config.channel_max
        if not FRAME_MIN <= frame_max <= config.frame_max:
            raise FrameError(f"negotiated frame_max = {frame_max} is not acceptable")
        if channel_max > config.channel_max:
            raise FrameError(f"negotiated channel_max = {channel_max} is not acceptable")
        session.frame_max = session.reader.frame_max = frame_max
        session.small_frames = frame_max < config.frame_max
        session.channel_max = channel_max
        session.start_heartbeat(method.heartbeat)
        self._expected = m.ConnectionOpen

    def _open(self, method: m.ConnectionOpen) -> None:
        session = self._session
        session.user, session.vhost = session.broker.admit(session.user, method.virtual_host)
        session.opened()
        session.send(0, m.ConnectionOpenOk())
        logger.info(
            "connection %s opened: user %r, vhost %r%s",
            session.transport.name,
            session.user.name,
            session.vhost.name,
            _client(session.client_properties),
        )


def _client(properties: Mapping[str, object]) -> str:
    """How it calls itself, as far as it does: its name, otherwise what it is made with."""
    words = [properties.get("connection_name")]
    if not words[0]:
        words = [properties.get("product"), properties.get("version")]
    said = " ".join(one for one in words if isinstance(one, str))
    return f", client {said[:80]!r}" if said else ""


def _credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """User and password from a SASL response."""
    if mechanism == "PLAIN":
        parts = response.split(b"\x00")
        if len(parts) == 3:
            return _text(parts[1]), _text(parts[2])
    elif mechanism == "AMQPLAIN":
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
        name, password = table.get("LOGIN"), table.get("PASSWORD")
        if isinstance(name, str) and isinstance(password, str):
            return name, password
    else:
        raise MalformedError(f"unknown authentication mechanism '{mechanism}'")
    raise LoginRefused(f"malformed response for {mechanism}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
