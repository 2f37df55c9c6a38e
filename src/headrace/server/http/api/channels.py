"""/api/channels: what each channel holds and has done."""

from __future__ import annotations

from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.http import replies, stats
from headrace.server.http.api.connections import find_session, visible_sessions
from headrace.server.http.api.consumers import channel_name, consumer_row
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, Row, listed, reduced
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoute
from headrace.server.http.sampler import window_of, with_details

Item = tuple[BaseSession, BaseChannel]


def _connection_details(item: Item) -> Row:
    transport = item[0].transport
    return {
        "name": transport.name,
        "peer_host": transport.peer_host,
        "peer_port": transport.peer_port,
    }


def _fields(call: ApiRequest) -> ListColumns[Item]:
    management, window = call.management, window_of(call.query, "msg_rates")
    sampler = management.sampler
    sampler.watch()

    def message_stats(item: Item) -> object:
        values = stats.channel_values(item[1])
        if not any(values):
            return None
        history = sampler.history(item[1])
        return with_details(stats.CHANNEL, stats.CHANNEL_MESSAGES, values, history, window)

    return ListColumns(
        {
            "name": lambda item: channel_name(*item),
            "number": lambda item: getattr(item[1], "number", 0),
            "vhost": lambda item: item[0].open_vhost.name,
            "user": lambda item: item[0].user.name,
            "user_who_performed_action": lambda item: item[0].user.name,
            "node": lambda item: management.node,
            "state": lambda item: "flow" if item[0].transport.is_paused else "running",
            "connection_details": _connection_details,
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


async def _channels(call: ApiRequest) -> Reply:
    items = [
        (session, one) for session in visible_sessions(call) for one in stats.channels_of(session)
    ]
    return await listed(call, items, _fields(call))


async def _of_connection(call: ApiRequest) -> Reply:
    session = find_session(call)
    return await listed(call, [(session, one) for one in stats.channels_of(session)], _fields(call))


async def _channel(call: ApiRequest) -> Reply:
    for session in visible_sessions(call):
        for channel in stats.channels_of(session):
            if channel_name(session, channel) == call.name:
                row = _fields(call).row((session, channel))
                consumers = channel.consumers.values()
                row["consumer_details"] = [consumer_row(one, call.management) for one in consumers]
                row["publishes"] = []
                row["deliveries"] = []
                return replies.data(reduced(call, row))
    raise replies.not_found()


ROUTES = (
    ApiRoute("GET", "/api/channels", _channels, MANAGEMENT, "All channels"),
    ApiRoute("GET", "/api/channels/{name}", _channel, MANAGEMENT, "One channel"),
    ApiRoute("GET", "/api/connections/{name}/channels", _of_connection, MANAGEMENT,
          "Channels of a connection"),
    ApiRoute("GET", "/api/vhosts/{vhost}/channels", _channels, SEES_VHOST, "Channels of a vhost"),
)  # fmt: skip
