"""/api/pipelines: the Spark pipelines that have reported, and how far they are."""

from __future__ import annotations

from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed_rows
from headrace.server.http.replies import Reply
from headrace.server.http.router import MANAGEMENT, SEES_VHOST, ApiRoutes

ROUTES = ApiRoutes()

_NAMES = ("name", "vhost", "state", "file", "master", "host", "pid", "started_at", "updated_at",
          "silent_ms", "bad_records", "last_bad", "error", "queries", "history")  # fmt: skip


@ROUTES.get("/api/pipelines", MANAGEMENT, "All pipelines")
@ROUTES.get("/api/pipelines/{vhost}", SEES_VHOST, "Pipelines of a vhost")
async def _pipelines(call: ApiRequest) -> Reply:
    found: list[Row] = []
    for vhost in call.visible_vhosts():
        now = vhost.clock.now_ms()
        for one in sorted(vhost.pipelines, key=lambda status: status.name):
            known: Row = {name: one.state.get(name) for name in _NAMES}
            known |= {"name": one.name, "vhost": vhost.name, "silent_ms": now - one.at_ms}
            found.append(known | {"queries": one.queries(now), "history": [*one.history]})
    return await listed_rows(call, found)
