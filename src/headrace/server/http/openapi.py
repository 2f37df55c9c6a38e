"""/api/openapi.json: the route table for programs."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from headrace import __version__
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.replies import Reply
from headrace.server.http.router import ANYBODY, ApiRoute

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
    from headrace.server.http.route_table import TABLE  # the table holds this module's route, too

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


async def _openapi(call: ApiRequest) -> Reply:
    return replies.data(document())


ROUTES = (ApiRoute("GET", "/api/openapi.json", _openapi, ANYBODY, "This description"),)
