"""The table of all routes, and the OpenAPI document made from it (/api/openapi.json).

A new resource is added here, and in no other place.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from headrace import __version__
from headrace.server.http import auth, page
from headrace.server.http.api import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    groups,
    health,
    nodes,
    overview,
    parameters,
    permissions,
    pipelines,
    policies,
    queues,
    reports,
    rows,
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
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.metrics import endpoint
from headrace.server.http.router import ANYBODY, ApiRoute, ApiRoutes, RouteTable

_ANSWERS = {"GET": "200", "PUT": "201", "POST": "200", "DELETE": "204"}


def _schema(kind: str) -> dict[str, Any]:
    return {} if kind == "any" else {"type": kind}


def _operation(route: ApiRoute) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    parameters += [
        {"name": name, "in": "query", "schema": _schema(kind)} for name, kind in route.query.items()
    ]
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{re.sub(r'[^a-zA-Z0-9]+', '_', route.path)}",
        "summary": route.summary,
        "tags": [route.parts[1] if route.parts[0] == "api" else route.parts[0] or "page"],
        "parameters": parameters,
        "responses": {_ANSWERS[route.method]: {"description": "done"}},
    }
    if route.rule.tag is None:
        operation["security"] = []
    else:
        operation["responses"]["401"] = {"description": f"needs the tag {route.rule.tag}"}
        operation["x-user-tag"] = route.rule.tag
    if route.body:
        properties = {name: _schema(kind) for name, kind in route.body.items()}
        schema = {"type": "object", "properties": properties}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


@cache
def document() -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in TABLE.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace management API", "version": __version__},
        "components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}},
        "security": [{"basic": []}],
        "paths": paths,
    }


ROUTES = ApiRoutes()


@ROUTES.get("/api/openapi.json", ANYBODY, "OpenAPI document")
async def _openapi(call: ApiRequest) -> object:
    return document()


_RESOURCES = (
    page, auth, endpoint,
    overview, nodes, health,
    queues, get, browse, redrive, dead_letters, message_events,
    exchanges, publish, bindings,
    topics, groups, rows, pipelines, reports,
    connections, channels, consumers,
    vhosts, users, permissions, policies, parameters, definitions,
)  # fmt: skip

TABLE = RouteTable([*ROUTES, *(route for resource in _RESOURCES for route in resource.ROUTES)])
