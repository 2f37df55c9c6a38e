"""/api/pipelines: the Spark pipelines that were heard of, and how far they are."""

from __future__ import annotations

from headrace.server.http.api_request import Call
from headrace.server.http.listing import Fields, Row, listed
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, Route

_NAMES = ("name", "vhost", "state", "file", "master", "host", "pid", "started_at", "updated_at",
          "silent_ms", "bad_records", "error", "queries")  # fmt: skip


async def _pipelines(call: Call) -> Reply:
    found: list[Row] = []
    for vhost in call.visible_vhosts():
        now = vhost.clock.now_ms()
        for one in sorted(vhost.pipelines, key=lambda told: told.name):
            known: Row = {name: one.state.get(name) for name in _NAMES}
            known |= {"name": one.name, "vhost": vhost.name, "silent_ms": now - one.at_ms}
            found.append(known | {"queries": one.queries(now)})
    fields: Fields[Row] = Fields(
        {name: (lambda row, name=name: row[name]) for name in _NAMES}  # type: ignore[misc]
    )
    return await listed(call, found, fields)


ROUTES = (
    Route("GET", "/api/pipelines", _pipelines, MANAGEMENT, "All pipelines"),
    Route("GET", "/api/pipelines/{vhost}", _pipelines, SEES_VHOST, "Pipelines of a vhost"),
)
