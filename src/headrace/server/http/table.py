"""All routes. A new resource is added here, and nowhere else."""

from __future__ import annotations

from headrace.server.http import (
    bindings,
    browsing,
    channels,
    connections,
    consumers,
    deadletters,
    definitions,
    exchanges,
    health,
    lifeline,
    login,
    metrics,
    moving,
    nodes,
    openapi,
    overview,
    page,
    parameters,
    permissions,
    pipelines,
    policies,
    publishing,
    queues,
    reading,
    reports,
    topics,
    users,
    vhosts,
)
from headrace.server.http.route import Table

_RESOURCES = (
    page, openapi, login, metrics,
    overview, nodes, health,
    queues, reading, browsing, moving, deadletters, lifeline,
    exchanges, publishing, bindings,
    topics, pipelines, reports,
    connections, channels, consumers,
    vhosts, users, permissions, policies, parameters, definitions,
)  # fmt: skip

TABLE = Table(route for resource in _RESOURCES for route in resource.ROUTES)
