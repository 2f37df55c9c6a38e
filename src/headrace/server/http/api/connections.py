"""/api/connections: who is connected, and closing a connection."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.server.base_session import BaseSession
from headrace.server.http import replies, stats
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, Row, listed, reduced
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoutes, has_tag
from headrace.server.http.sampler import details, window_of

ROUTES = ApiRoutes()

DEFAULT_REASON = "Closed via management plugin"
MAX_REASON = 200
MAX_ROUTES = 20


def _state(session: BaseSession) -> str:
    if session.closing:
        return "closing"
    if session.blocked:
        return "blocked"
    return "flow" if session.transport.is_paused else "running"


def client_properties(session: BaseSession) -> Mapping[str, object]:
    properties = getattr(session, "client_properties", {})
    return properties if isinstance(properties, Mapping) else {}


def given_name(session: BaseSession) -> str | None:
    """The name that the client chose for its connection."""
    name = client_properties(session).get("connection_name")
    return name if isinstance(name, str) else None


def client_name(session: BaseSession) -> str:
    """The client library, its version, platform and process, as far as it names them."""
    known = client_properties(session)
    keys = ("product", "version", "platform", "process")
    return " ".join(str(known[key]) for key in keys if known.get(key))


def peer_columns(session: BaseSession) -> Row:
    """How rows of other things show their connection."""
    transport = session.transport
    return {"name": transport.name, "peer_host": transport.peer_host,
            "peer_port": transport.peer_port}  # fmt: skip


def _publishes_to(session: BaseSession) -> object:
    """Exchanges and keys of recent publishes; None for sessions that do not publish to any."""
    routes = getattr(getattr(session, "publisher", None), "routes", None)
    found = routes()[:MAX_ROUTES] if routes is not None else ()
    return [{"exchange": one.exchange, "routing_key": one.key} for one in found] or None


def _fields(call: ApiRequest) -> ListColumns[BaseSession]:
    management = call.management
    sampler, window = management.sampler, window_of(call.query, "data_rates")
    sampler.watch()

    def octets(name: str, session: BaseSession) -> object:
        return details(sampler.history(session), stats.CONNECTION.index(name), window)

    return ListColumns(
        {
            "name": lambda one: one.transport.name,
            "vhost": lambda one: one.vhost.name if one.vhost is not None else "",
            "user": lambda one: one.user.name,
            "user_who_performed_action": lambda one: one.user.name,
            "state": _state,
            "channels": lambda one: len(stats.channels_of(one)),
            "channel_max": lambda one: getattr(one, "channel_max", management.config.channel_max),
            "frame_max": lambda one: one.reader.frame_max if hasattr(one, "reader") else 0,
            "timeout": lambda one: int(one.heartbeat),
            "protocol": lambda one: one.protocol,
            "auth_mechanism": lambda one: one.mechanism,
            "type": lambda one: "network",
            "node": lambda one: management.node,
            "host": lambda one: one.transport.host,
            "port": lambda one: one.transport.port,
            "peer_host": lambda one: one.transport.peer_host,
            "peer_port": lambda one: one.transport.peer_port,
            "ssl": lambda one: one.transport.tls is not None,
            "ssl_protocol": lambda one: one.transport.tls.version() if one.transport.tls else None,
            "ssl_cipher": lambda one: _cipher(one),
            "ssl_hash": lambda one: None,
            "ssl_key_exchange": lambda one: None,
            "peer_cert_subject": lambda one: None,
            "peer_cert_issuer": lambda one: None,
            "peer_cert_validity": lambda one: None,
            "connected_at": lambda one: int(one.connected_at * 1000),
            "client_properties": client_properties,
            "user_provided_name": given_name,
            "publishes_to": _publishes_to,
            "recv_oct": lambda one: one.received,
            "recv_oct_details": lambda one: octets("recv_oct", one),
            "recv_cnt": lambda one: one.reads,
            "send_oct": lambda one: one.sent,
            "send_oct_details": lambda one: octets("send_oct", one),
            "send_cnt": lambda one: one.writes,
            "send_pend": lambda one: one.transport.unsent(),
        },
        optional=("user_provided_name", "publishes_to"),
    )


def _cipher(session: BaseSession) -> str | None:
    cipher = session.transport.tls.cipher() if session.transport.tls is not None else None
    return cipher[0] if cipher else None


def visible_sessions(call: ApiRequest) -> list[BaseSession]:
    """All connections for monitoring users, their own for others."""
    sessions = stats.sessions_of(call.broker)
    if "vhost" in call.params:
        sessions = [session for session in sessions if session.vhost is call.vhost]
    if not call.sees_all:
        sessions = [session for session in sessions if session.user.name == call.user.name]
    return sessions


def find_session(call: ApiRequest) -> BaseSession:
    named = (one for one in visible_sessions(call) if one.transport.name == call.name)
    return replies.found(next(named, None))


@ROUTES.get("/api/connections", MANAGEMENT, "All connections")
@ROUTES.get("/api/vhosts/{vhost}/connections", SEES_VHOST, "Connections of a vhost")
async def _connections(call: ApiRequest) -> replies.Reply:
    return await listed(call, visible_sessions(call), _fields(call))


@ROUTES.get("/api/connections/{name}", MANAGEMENT, "One connection")
async def _connection(call: ApiRequest) -> object:
    return reduced(call, _fields(call).row(find_session(call)))


@ROUTES.get("/api/connections/username/{name}", MANAGEMENT, "Connections of a user")
async def _of_user(call: ApiRequest) -> replies.Reply:
    sessions = [session for session in visible_sessions(call) if session.user.name == call.name]
    return await listed(call, sessions, _fields(call))


def _reason(call: ApiRequest) -> str:
    reason = call.headers.get("x-reason", DEFAULT_REASON)[:MAX_REASON]
    return "".join(char if char.isprintable() else " " for char in reason)


def _may_close(call: ApiRequest, user: str) -> None:
    """Who only watches sees the connections of others, and does not end them."""
    if user != call.user.name and not has_tag(call.user.tags, "administrator"):
        raise replies.not_authorised("Not administrator user")


@ROUTES.delete("/api/connections/{name}", MANAGEMENT, "Close a connection; header X-Reason")
async def _close(call: ApiRequest) -> None:
    session = find_session(call)
    _may_close(call, session.user.name)
    session.force_close(_reason(call))


@ROUTES.delete("/api/connections/username/{name}", MANAGEMENT,
    "Close the connections of a user; header X-Reason")  # fmt: skip
async def _close_of_user(call: ApiRequest) -> None:
    _may_close(call, call.name)
    for session in visible_sessions(call):
        if session.user.name == call.name:
            session.force_close(_reason(call))
