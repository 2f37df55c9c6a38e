"""/api/reports: what `headrace report` found out, for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import Row, listed_rows
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoutes

ROUTES = ApiRoutes()
_ONE = "/api/reports/{vhost}/{name}"

_PERIOD = ("from", "to", "window", "made_at")


def _row(vhost: str, name: str, report: Mapping[str, Any]) -> Row:
    """What a list shows: titles, not figures."""
    return {
        "name": name,
        "vhost": vhost,
        **{key: report.get(key) for key in _PERIOD},
        "tables": [one["title"] for one in report["tables"]],
        "charts": [one["title"] for one in report["charts"]],
    }


@ROUTES.get("/api/reports", MANAGEMENT, "All saved reports, newest first")
@ROUTES.get("/api/reports/{vhost}", SEES_VHOST, "Reports of a vhost")
async def _reports(call: ApiRequest) -> replies.Reply:
    rows = [
        _row(vhost.name, name, report)
        for vhost in call.visible_vhosts()
        for name, report in call.broker.reports.listed(vhost.name).items()
    ]
    return await listed_rows(call, rows)


@ROUTES.get(_ONE, SEES_VHOST, "One report with its tables and charts")
async def _report(call: ApiRequest) -> object:
    report = replies.found(call.broker.reports.find(call.vhost.name, call.name))
    return {"name": call.name, "vhost": call.vhost.name, **report}


def _is_table(one: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("title"), str)
        and _is_list_of(one.get("columns"), str)
        and _is_list_of(one.get("rows"), list)
    )


def _is_chart(one: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("title"), str)
        and isinstance(one.get("lines"), dict)
        and all(_is_line(line) for line in one["lines"].values())
    )


def _is_line(line: object) -> bool:
    """[[time, number], ...], times as texts."""
    return _is_list_of(line, list) and all(
        len(point) == 2 and isinstance(point[0], str) and isinstance(point[1], int | float)
        for point in line  # type: ignore[attr-defined]
    )


def _is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


@ROUTES.put(_ONE, ENTERS_VHOST, "Save a report",
    {"from": "string", "to": "string", "window": "string", "notes": "array", "tables": "array",
     "charts": "array"})  # fmt: skip
async def _put(call: ApiRequest) -> replies.Reply:
    call.check("configure", "report", call.name)
    report = {key: call.value(key, str) for key in ("from", "to")}
    report["window"] = call.value("window", str, "")
    for key, kind, fits in (
        ("notes", str, lambda one: isinstance(one, str)),
        ("tables", dict, _is_table),
        ("charts", dict, _is_chart),
    ):
        given = call.value(key, list, [])
        if not all(fits(one) for one in given):
            raise replies.bad_request(f"'{key}' must be an array of {kind.__name__}s as documented")
        report[key] = given
    made_at = int(call.broker.clock.wall_seconds() * 1000)
    new = call.broker.reports.put(call.vhost.name, call.name, report, made_at)
    return replies.created(new=new)


@ROUTES.delete(_ONE, ENTERS_VHOST, "Delete a report")
async def _delete(call: ApiRequest) -> None:
    call.check("configure", "report", call.name)
    replies.found(call.broker.reports.delete(call.vhost.name, call.name))
