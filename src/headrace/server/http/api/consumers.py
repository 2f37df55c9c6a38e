"""/api/consumers: who consumes what, and how."""

from __future__ import annotations

from headrace.core.queues.consumer import Consumer
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession
from headrace.server.http.api.connections import client_name, given_name, peer_columns
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed_rows
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoutes

ROUTES = ApiRoutes()


def channel_name(session: BaseSession, channel: BaseChannel) -> str:
    return f"{session.transport.name} ({getattr(channel, 'number', 0)})"


def _channel_details(consumer: Consumer, call: ApiRequest) -> Row:
    session, channel = consumer.channel.connection, consumer.channel
    if not isinstance(session, BaseSession) or not isinstance(channel, BaseChannel):
        return {}
    return {
        **peer_columns(session),
        "name": channel_name(session, channel),
        "number": getattr(channel, "number", 0),
        "connection_name": session.transport.name,
        "node": call.management.node,
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


def consumer_row(consumer: Consumer, call: ApiRequest) -> Row:
    activity = _activity(consumer)
    return {
        "arguments": consumer.arguments,
        "ack_required": not consumer.no_ack,
        "active": activity != "waiting",
        "activity_status": activity,
        "channel_details": _channel_details(consumer, call),
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "priority": consumer.priority,
        "unacknowledged": consumer.unacked,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.services.name},
    }


@ROUTES.get("/api/consumers", MANAGEMENT, "All consumers")
@ROUTES.get("/api/consumers/{vhost}", SEES_VHOST, "Consumers of a vhost")
async def _consumers(call: ApiRequest) -> Reply:
    found = [
        consumer_row(consumer, call)
        for vhost in call.visible_vhosts()
        for _, queue in sorted(vhost.queues.items())
        for consumer in queue.consumers
    ]
    return await listed_rows(call, found)
