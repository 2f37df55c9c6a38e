"""/api/channels: what each channel holds and has done."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.http import replies, stats
from headrace.server.http.api.connections import find_session, peer_columns, visible_sessions
from headrace.server.http.api.consumers import channel_name, consumer_row
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, Row, listed, reduced
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoutes
from headrace.server.http.sampler import window_of

ROUTES = ApiRoutes()

Item = tuple[BaseSession, BaseChannel]


def _items(sessions: Iterable[BaseSession]) -> list[Item]:
    return [(session, one) for session in sessions for one in stats.channels_of(session)]


def _fields(call: ApiRequest) -> ListColumns[Item]:
    management, window = call.management, window_of(call.query, "msg_rates")
    sampler = management.sampler
    sampler.watch()

    def message_stats(item: Item) -> object:
        names, values = stats.CHANNEL_MESSAGES, stats.channel_values(item[1])
        return sampler.message_stats(item[1], names, names, values, window)

    return ListColumns(
        {
            "name": lambda item: channel_name(*item),
            "number": lambda item: getattr(item[1], "number", 0),
            "vhost": lambda item: item[0].open_vhost.name,
            "user": lambda item: item[0].user.name,
            "user_who_performed_action": lambda item: item[0].user.name,
            "node": lambda item: management.node,
            "state": lambda item: "flow" if item[0].transport.is_paused else "running",
            "connection_details": lambda item: peer_columns(item[0]),
            "confirm": lambda item: item[1].status().confirms,
            "transactional": lambda item: item[1].status().transactional,
            "consumer_count": lambda item: len(item[1].consumers),
            "prefetch_count": lambda item: item[1].default_prefetch,
            "global_prefetch_count": lambda item: item[1].status().global_prefetch,
            "messages_unacknowledged": lambda item: item[1].unacked.count,
            "messages_unconfirmed": lambda item: item[1].status().unconfirmed,
            "messages_uncommitted": lambda item: item[1].status().uncommitted_publishes,
            "acks_uncommitted": lambda item: item[1].status().uncommitted_acks,
            "pending_raft_commands": lambda item: 0,
            "message_stats": message_stats,
            "idle_since": lambda item: sampler.idle_since(item[1]),
        },
        optional=("message_stats", "idle_since"),
    )


@ROUTES.get("/api/channels", MANAGEMENT, "All channels")
@ROUTES.get("/api/vhosts/{vhost}/channels", SEES_VHOST, "Channels of a vhost")
async def _channels(call: ApiRequest) -> replies.Reply:
    return await listed(call, _items(visible_sessions(call)), _fields(call))


@ROUTES.get("/api/connections/{name}/channels", MANAGEMENT, "Channels of a connection")
async def _of_connection(call: ApiRequest) -> replies.Reply:
    return await listed(call, _items([find_session(call)]), _fields(call))


@ROUTES.get("/api/channels/{name}", MANAGEMENT, "One channel")
async def _channel(call: ApiRequest) -> object:
    named = (one for one in _items(visible_sessions(call)) if channel_name(*one) == call.name)
    item = replies.found(next(named, None))
    consumers = [consumer_row(one, call) for one in item[1].consumers.values()]
    more: Row = {"consumer_details": consumers, "publishes": [], "deliveries": []}
    return reduced(call, _fields(call).row(item) | more)
