"""Reports that are kept for the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core import parameters
from headrace.testing import run_broker
from support.http_api import Api

REPORT = {
    "from": "2026-03-01T00:00:00+00:00",
    "to": "2026-03-02T00:00:00+00:00",
    "window": "1 hour",
    "notes": ["from the archive"],
    "tables": [{"title": "Latency", "note": "", "columns": ["queue", "p95"], "rows": [["q", 1.5]]}],
    "charts": [{"title": "In", "unit": "1/s", "lines": {"q": [["2026-03-01T00:00:00+00:00", 3]]}}],
}


def test_a_report_is_kept_listed_shown_and_forgotten(api: Api) -> None:
    api.put("/api/reports/%2F/daily", REPORT, 201)
    api.put("/api/reports/%2F/daily", REPORT, 204)

    [row] = [one for one in api.get("/api/reports") if one["name"] == "daily"]
    assert (row["tables"], row["charts"], row["window"]) == (["Latency"], ["In"], "1 hour")
    shown = api.get("/api/reports/%2F/daily")
    assert {key: shown[key] for key in REPORT} == REPORT
    assert shown["made_at"] > 1_700_000_000_000
    assert api.get("/api/parameters") == []
    assert api.get("/api/definitions")["parameters"] == []
    api.put("/api/parameters/headrace-report/%2F/daily", {"value": 1}, 400)

    planted = {"component": "headrace-report", "vhost": "/", "name": "odd", "value": {"tables": 7}}
    api.post("/api/definitions", {"parameters": [planted]}, 204)
    assert [one["name"] for one in api.get("/api/reports")] == ["daily"]

    api.delete("/api/reports/%2F/daily")
    api.get("/api/reports/%2F/daily", 404)
    api.delete("/api/reports/%2F/daily", 404)


@pytest.mark.parametrize(
    "change",
    [
        {"from": 7},
        {"tables": [7]},
        {"tables": [{"title": "t", "columns": [1], "rows": []}]},
        {"tables": [{"title": "t", "columns": ["a"], "rows": [7]}]},
        {"charts": [{"title": "c", "lines": {"q": [[1, 2]]}}]},
        {"charts": [{"title": "c", "lines": {"q": [["now"]]}}]},
        {"charts": [{"title": "c", "lines": {"q": [["now", "many"]]}}]},
        {"notes": [None]},
    ],
)
def test_what_is_no_report_is_not_kept(api: Api, change: dict[str, object]) -> None:
    api.put("/api/reports/%2F/odd", REPORT | change, 400)
    assert "odd" not in [one["name"] for one in api.get("/api/reports")]


def test_a_report_has_at_most_1_mib(api: Api) -> None:
    api.put("/api/reports/%2F/odd", REPORT | {"notes": ["x" * (1 << 20)]}, 413)


def test_reports_are_there_after_a_restart_and_the_oldest_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parameters, "MAX_REPORTS", 2)
    with run_broker(data_dir=tmp_path / "data") as broker:
        with Api(broker) as api:
            for name in ("first", "second", "third"):
                api.put(f"/api/reports/%2F/{name}", REPORT, 201)
                broker._running().call(_pass_a_moment)
        broker.restart()
        with Api(broker) as api:
            assert [one["name"] for one in api.get("/api/reports")] == ["third", "second"]


async def _pass_a_moment(server: object) -> None:
    import asyncio

    await asyncio.sleep(0.002)  # so that the times, in milliseconds, differ
