"""/api/connections: who is connected, and closing a connection."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.server.base_session import BaseSession
from headrace.server.http import replies, stats
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoute, has_tag
from headrace.server.http.sampler import details, window_of

DEFAULT_REASON = "Closed via management plugin"
MAX_REASON = 200


def _state(peer: BaseSession) -> str:
    if peer.closing:
        return "closing"
    if peer.blocked:
        return "blocked"
    return "flow" if peer.link.is_paused else "running"


def _client_properties(peer: BaseSession) -> Mapping[str, object]:
    properties = getattr(peer, "client_properties", {})
    return properties if isinstance(properties, Mapping) else {}


def _given_name(peer: BaseSession) -> str | None:
    name = _client_properties(peer).get("connection_name")
    return name if isinstance(name, str) else None


def _fields(call: ApiRequest) -> ListColumns[BaseSession]:
    management = call.management
    sampler, window = management.sampler, window_of(call.query, "data_rates")
    sampler.watch()

    def octets(name: str, peer: BaseSession) -> object:
        return details(sampler.history(peer), stats.CONNECTION.index(name), window)

    return ListColumns(
        {
            "name": lambda peer: peer.link.name,
            "vhost": lambda peer: peer.vhost.name if peer.vhost is not None else "",
            "user": lambda peer: peer.user.name,
            "user_who_performed_action": lambda peer: peer.user.name,
            "state": _state,
            "channels": lambda peer: len(stats.channels_of(peer)),
            "channel_max": lambda peer: getattr(peer, "channel_max", management.config.channel_max),
            "frame_max": lambda peer: peer.reader.frame_max if hasattr(peer, "reader") else 0,
            "timeout": lambda peer: int(peer.heartbeat),
            "protocol": lambda peer: peer.protocol,
            "auth_mechanism": lambda peer: peer.mechanism,
            "type": lambda peer: "network",
            "node": lambda peer: management.node,
            "host": lambda peer: peer.link.host,
            "port": lambda peer: peer.link.port,
            "peer_host": lambda peer: peer.link.peer,
            "peer_port": lambda peer: peer.link.peer_port,
            "ssl": lambda peer: peer.link.tls is not None,
            "ssl_protocol": lambda peer: peer.link.tls.version() if peer.link.tls else None,
            "ssl_cipher": lambda peer: _cipher(peer),
            "ssl_hash": lambda peer: None,
            "ssl_key_exchange": lambda peer: None,
            "peer_cert_subject": lambda peer: None,
            "peer_cert_issuer": lambda peer: None,
            "peer_cert_validity": lambda peer: None,
            "connected_at": lambda peer: int(peer.connected_at * 1000),
            "client_properties": _client_properties,
            "user_provided_name": _given_name,
            "recv_oct": lambda peer: peer.received,
            "recv_oct_details": lambda peer: octets("recv_oct", peer),
            "recv_cnt": lambda peer: peer.reads,
            "send_oct": lambda peer: peer.sent,
            "send_oct_details": lambda peer: octets("send_oct", peer),
            "send_cnt": lambda peer: peer.writes,
            "send_pend": lambda peer: peer.link.unsent(),
        },
        optional=("user_provided_name",),
    )


def _cipher(peer: BaseSession) -> str | None:
    cipher = peer.link.tls.cipher() if peer.link.tls is not None else None
    return cipher[0] if cipher else None


def visible_peers(call: ApiRequest) -> list[BaseSession]:
    """All connections for monitoring users, their own for others."""
    peers = stats.peers_of(call.broker)
    if "vhost" in call.params:
        peers = [peer for peer in peers if peer.vhost is call.vhost]
    if not call.sees_all:
        peers = [peer for peer in peers if peer.user.name == call.user.name]
    return peers


def find_peer(call: ApiRequest) -> BaseSession:
    for peer in visible_peers(call):
        if peer.link.name == call.name:
            return peer
    raise replies.not_found()


async def _connections(call: ApiRequest) -> Reply:
    return await listed(call, visible_peers(call), _fields(call))


async def _connection(call: ApiRequest) -> Reply:
    return replies.data(reduced(call, _fields(call).row(find_peer(call))))


async def _of_user(call: ApiRequest) -> Reply:
    peers = [peer for peer in visible_peers(call) if peer.user.name == call.name]
    return await listed(call, peers, _fields(call))


def _reason(call: ApiRequest) -> str:
    reason = call.headers.get("x-reason", DEFAULT_REASON)[:MAX_REASON]
    return "".join(char if char.isprintable() else " " for char in reason)


def _may_close(call: ApiRequest, user: str) -> None:
    """Who only watches sees the connections of others, and does not end them."""
    if user != call.user.name and not has_tag(call.user.tags, "administrator"):
        raise replies.not_authorised("Not administrator user")


async def _close(call: ApiRequest) -> Reply:
    peer = find_peer(call)
    _may_close(call, peer.user.name)
    peer.force_close(_reason(call))
    return replies.DONE


async def _close_of_user(call: ApiRequest) -> Reply:
    _may_close(call, call.name)
    for peer in visible_peers(call):
        if peer.user.name == call.name:
            peer.force_close(_reason(call))
    return replies.DONE


ROUTES = (
    ApiRoute("GET", "/api/connections", _connections, MANAGEMENT, "All connections"),
    ApiRoute("GET", "/api/connections/{name}", _connection, MANAGEMENT, "One connection"),
    ApiRoute("DELETE", "/api/connections/{name}", _close, MANAGEMENT,
          "Close a connection; header X-Reason"),
    ApiRoute("GET", "/api/connections/username/{name}", _of_user, MANAGEMENT,
          "Connections of a user"),
    ApiRoute("DELETE", "/api/connections/username/{name}", _close_of_user, MANAGEMENT,
          "Close the connections of a user; header X-Reason"),
    ApiRoute("GET", "/api/vhosts/{vhost}/connections", _connections, SEES_VHOST,
          "Connections of a vhost"),
)  # fmt: skip
