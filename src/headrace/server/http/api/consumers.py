"""/api/consumers: who consumes what, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.queues.consumer import Consumer
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.http.api.connections import client_name, given_name
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, Row, listed
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoute

if TYPE_CHECKING:
    from headrace.server.http.context import ManagementContext


def channel_name(session: BaseSession, channel: BaseChannel) -> str:
    return f"{session.transport.name} ({getattr(channel, 'number', 0)})"


def _channel_details(consumer: Consumer, management: ManagementContext) -> Row:
    session, channel = consumer.channel.connection, consumer.channel
    if not isinstance(session, BaseSession) or not isinstance(channel, BaseChannel):
        return {}
    return {
        "name": channel_name(session, channel),
        "number": getattr(channel, "number", 0),
        "connection_name": session.transport.name,
        "peer_host": session.transport.peer_host,
        "peer_port": session.transport.peer_port,
        "node": management.node,
        "user": session.user.name,
        "user_provided_name": given_name(session),
        "client": client_name(session),
        "connected_at": int(session.connected_at * 1000),
        "global_prefetch_count": channel.status().global_prefetch,
    }


def _activity(consumer: Consumer) -> str:
    consumers = consumer.queue.consumers
    if not consumers.single_active:
        return "up"
    return "single_active" if consumers.active is consumer else "waiting"


def consumer_row(consumer: Consumer, management: ManagementContext) -> Row:
    activity = _activity(consumer)
    return {
        "arguments": consumer.arguments,
        "ack_required": not consumer.no_ack,
        "active": activity != "waiting",
        "activity_status": activity,
        "channel_details": _channel_details(consumer, management),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "priority": consumer.priority,
        "unacknowledged": consumer.unacked,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.services.name},
    }


_NAMES = ("arguments", "ack_required", "active", "activity_status", "channel_details",
          "consumer_tag", "exclusive", "prefetch_count", "priority", "unacknowledged",
          "queue")  # fmt: skip


async def _consumers(call: ApiRequest) -> Reply:
    found = [
        consumer_row(consumer, call.management)
        for vhost in call.visible_vhosts()
        for _, queue in sorted(vhost.queues.items())
        for consumer in queue.consumers
    ]
    fields: ListColumns[Row] = ListColumns(
        {name: (lambda row, name=name: row[name]) for name in _NAMES}  # type: ignore[misc]
    )
    return await listed(call, found, fields)


ROUTES = (
    ApiRoute("GET", "/api/consumers", _consumers, MANAGEMENT, "All consumers"),
    ApiRoute("GET", "/api/consumers/{vhost}", _consumers, SEES_VHOST, "Consumers of a vhost"),
)
