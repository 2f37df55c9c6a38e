"""/api/overview and what else describes the broker as a whole."""

from __future__ import annotations

import platform
from typing import Any

from headrace import __version__
from headrace.core.exchange import KINDS
from headrace.core.parameters import CLUSTER_NAME
from headrace.server.http import replies, stats
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.context import RABBITMQ_VERSION, ManagementContext
from headrace.server.http.listing import reduced
from headrace.server.http.router import ADMINISTRATOR, MANAGEMENT, ApiRoutes
from headrace.server.http.sampler import window_of, with_details

ROUTES = ApiRoutes()

_DESCRIPTIONS = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-delayed-message": "Delayed message exchange",
    "x-topic": "A topic: messages are kept, and tapped by bindings with their tag",
}


def exchange_types() -> list[dict[str, object]]:
    return [
        {"name": kind, "description": _DESCRIPTIONS.get(kind, kind), "enabled": True}
        for kind in KINDS
    ]


def listeners(management: ManagementContext) -> list[dict[str, object]]:
    return [
        {
            "node": management.node,
            "protocol": protocol,
            "ip_address": management.config.host,
            "port": port,
            "socket_opts": {},
        }
        for protocol, port in management.ports.items()
    ]


def contexts(management: ManagementContext) -> list[dict[str, object]]:
    return [
        {
            "node": management.node,
            "description": "Headrace management",
            "path": "/",
            "ip": management.config.host,
            "port": str(management.ports.get("http", "")),
            "ssl_opts": [],
        }
    ]


def _totals(call: ApiRequest) -> dict[str, object]:
    """Numbers of the whole broker, or of the vhosts that the user may see."""
    management = call.management
    lengths, rates = window_of(call.query, "lengths"), window_of(call.query, "msg_rates")
    if call.sees_all:
        values, history = stats.broker_values(call.broker), list(management.sampler.totals)
    else:
        values, history = _own_values(call), []
    names = stats.BROKER
    return {
        "message_stats": with_details(names, stats.VHOST_MESSAGES, values, history, rates),
        "churn_rates": with_details(names, stats.CHURN, values, history, rates),
        "queue_totals": with_details(names, stats.QUEUE_LENGTHS, values, history, lengths),
    }


def _own_values(call: ApiRequest) -> stats.Values:
    sessions = stats.sessions_of(call.broker)
    columns = zip(
        *(stats.vhost_values(one, sessions) for one in call.visible_vhosts()), strict=True
    )
    sums = tuple(sum(column) for column in columns) or tuple(0 for _ in stats.VHOST)
    return (*sums, *(0 for _ in stats.CHURN))


def _objects(call: ApiRequest) -> dict[str, int]:
    vhosts = call.visible_vhosts()
    sessions = [one for one in stats.sessions_of(call.broker) if one.vhost in vhosts]
    return {
        "channels": sum(len(stats.channels_of(session)) for session in sessions),
        "connections": len(sessions),
        "consumers": sum(len(one.consumers) for vhost in vhosts for one in vhost.queues.values()),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }


@ROUTES.get("/api/overview", MANAGEMENT, "Overview of the broker")
async def _overview(call: ApiRequest) -> object:
    management = call.management
    shown: dict[str, Any] = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [3600], "basic": [300], "detailed": [300]},
        "exchange_types": exchange_types(),
        "product_version": __version__,
        "product_name": "Headrace",
        "rabbitmq_version": RABBITMQ_VERSION,
        "cluster_name": management.cluster_name,
        "erlang_version": "",
        "erlang_full_version": "",
        "python_version": platform.python_version(),
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        **_totals(call),
        "object_totals": _objects(call),
        "statistics_db_event_queue": 0,
        "node": management.node,
    }
    if call.sees_all:
        shown["listeners"] = listeners(management)
        shown["contexts"] = contexts(management)
        status = call.broker.shared_status
        shown["share"] = status() if status is not None else None
    return reduced(call, shown)


@ROUTES.get("/api/cluster-name", MANAGEMENT, "Name of the cluster")
async def _cluster_name(call: ApiRequest) -> object:
    return {"name": call.management.cluster_name}


@ROUTES.put("/api/cluster-name", ADMINISTRATOR,
    "Change the name of the cluster until the next start", {"name": "string"})  # fmt: skip
async def _set_cluster_name(call: ApiRequest) -> None:
    name = call.value("name", str)
    if not 1 <= len(name) <= 255 or not name.isprintable():
        raise replies.bad_request("a cluster's name has 1 to 255 printable characters")
    call.broker.parameters.set_global(CLUSTER_NAME, name)


@ROUTES.get("/api/whoami", MANAGEMENT, "The authenticated user")
async def _whoami(call: ApiRequest) -> object:
    return {"name": call.user.name, "tags": sorted(call.user.tags)}


ROUTES.constant("/api/extensions", MANAGEMENT, "Extensions of the page; always empty", [])
ROUTES.constant("/api/auth", MANAGEMENT, "Other authentication methods; always empty",
                {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})  # fmt: skip
