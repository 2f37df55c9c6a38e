"""All routes. A new resource is added here, and nowhere else."""

from __future__ import annotations

from headrace.server.http import login, openapi, page
from headrace.server.http.api import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    nodes,
    overview,
    parameters,
    permissions,
    pipelines,
    policies,
    queues,
    reports,
    topics,
    users,
    vhosts,
)
from headrace.server.http.api.messages import (
    browse,
    dead_letters,
    get,
    message_events,
    publish,
    redrive,
)
from headrace.server.http.metrics import endpoint
from headrace.server.http.router import RouteTable

_RESOURCES = (
    page, openapi, login, endpoint,
    overview, nodes, health,
    queues, get, browse, redrive, dead_letters, message_events,
    exchanges, publish, bindings,
    topics, pipelines, reports,
    connections, channels, consumers,
    vhosts, users, permissions, policies, parameters, definitions,
)  # fmt: skip

TABLE = RouteTable(route for resource in _RESOURCES for route in resource.ROUTES)
