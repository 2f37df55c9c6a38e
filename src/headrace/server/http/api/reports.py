"""/api/reports: what `headrace report` found out, for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.listing import ListColumns, Row, listed
from headrace.server.http.replies import Reply
from headrace.server.http.router import ENTERS_VHOST, MANAGEMENT, SEES_VHOST, ApiRoute

_PERIOD = ("from", "to", "window", "made_at")
_COLUMNS = ("name", "vhost", *_PERIOD, "tables", "charts")
_FIELDS: ListColumns[Row] = ListColumns(
    {name: (lambda row, name=name: row[name]) for name in _COLUMNS}  # type: ignore[misc]
)


def _row(vhost: str, name: str, report: Mapping[str, Any]) -> Row:
    """What a list shows: titles, not figures."""
    return {
        "name": name,
        "vhost": vhost,
        **{key: report.get(key) for key in _PERIOD},
        "tables": [one["title"] for one in report["tables"]],
        "charts": [one["title"] for one in report["charts"]],
    }


async def _reports(call: ApiRequest) -> Reply:
    rows = [
        _row(vhost.name, name, report)
        for vhost in call.visible_vhosts()
        for name, report in call.broker.reports.listed(vhost.name).items()
    ]
    return await listed(call, rows, _FIELDS)


async def _report(call: ApiRequest) -> Reply:
    report = call.broker.reports.find(call.vhost.name, call.name)
    if report is None:
        raise replies.not_found()
    return replies.data({"name": call.name, "vhost": call.vhost.name, **report})


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


async def _put(call: ApiRequest) -> Reply:
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


async def _delete(call: ApiRequest) -> Reply:
    call.check("configure", "report", call.name)
    if not call.broker.reports.delete(call.vhost.name, call.name):
        raise replies.not_found()
    return replies.DONE


_ONE = "/api/reports/{vhost}/{name}"

ROUTES = (
    ApiRoute("GET", "/api/reports", _reports, MANAGEMENT, "All saved reports, newest first"),
    ApiRoute("GET", "/api/reports/{vhost}", _reports, SEES_VHOST, "Reports of a vhost"),
    ApiRoute("GET", _ONE, _report, SEES_VHOST, "One report with its tables and charts"),
    ApiRoute("PUT", _ONE, _put, ENTERS_VHOST, "Save a report",
          {"from": "string", "to": "string", "window": "string", "notes": "array",
           "tables": "array", "charts": "array"}),
    ApiRoute("DELETE", _ONE, _delete, ENTERS_VHOST, "Delete a report"),
)  # fmt: skip
