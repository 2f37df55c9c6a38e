"""What a pipeline says of itself is what the API shows."""

from __future__ import annotations

import httpx
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.core.spark_support import pipeline_status
from headrace.testing import run_broker


def test_the_api_shows_the_last_report_of_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_status, "MAX_PIPELINES", 2)
    with run_broker(clock="virtual") as broker:
        with BulkConnection(Settings(port=broker.native_port or 0)) as bulk:
            bulk.report_pipeline("b", {"state": "starting"})
            bulk.report_pipeline("a", {"state": "failed", "error": "gone", "secret": "unknown"})
            bulk.report_pipeline("b", {"state": "running", "queries": [{"rows": 7}]})
            with pytest.raises(HeadraceError, match="2 pipelines are known, which is the limit"):
                bulk.report_pipeline("c", {})
            with pytest.raises(HeadraceError, match="at most 65536 bytes"):
                bulk.report_pipeline("a", {"error": "x" * 70_000})
        with httpx.Client(
            timeout=60, base_url=str(broker.http_url), auth=("guest", "guest")
        ) as client:

            def shown(path: str) -> list[dict[str, object]]:
                found: list[dict[str, object]] = client.get(path).json()
                return found

            first, second = shown("/api/pipelines")
            assert (first["name"], first["error"]) == ("a", "gone")
            assert "secret" not in first
            assert (second["state"], second["queries"]) == ("running", [{"rows": 7}])
            assert shown("/api/pipelines/%2F") == [first, second]
            broker.advance(pipeline_status.FORGET_AFTER_MS / 1000 + 1)
            assert shown("/api/pipelines") == []


def test_the_reports_of_a_pipeline_are_its_history() -> None:
    queries = [
        {"input_rows_per_second": 10.0, "rows_per_second": 20.5, "lag": 7, "batch_ms": 80},
        {"input_rows_per_second": 1.0, "rows_per_second": 2.0, "lag": 70, "batch_ms": "soon"},
    ]
    with run_broker(clock="virtual") as broker:
        with BulkConnection(Settings(port=broker.native_port or 0)) as bulk:
            bulk.report_pipeline("p", {"state": "running"})
            bulk.report_pipeline("p", {"state": "running", "queries": [*queries, "odd"]})
            for _ in range(pipeline_status.SAMPLES):
                bulk.report_pipeline("q", {"state": "running"})
            bulk.report_pipeline("q", {"state": "running", "queries": queries, "last_bad": [{}]})
        with httpx.Client(
            timeout=60, base_url=str(broker.http_url), auth=("guest", "guest")
        ) as client:
            first, second = client.get("/api/pipelines").json()
    assert [row[1:] for row in first["history"]] == [[0, 0, 0, 0], [11.0, 22.5, 70, 80]]
    assert len(second["history"]) == pipeline_status.SAMPLES
    assert first["history"][0][0] > 1.7e12  # ms since 1970, not since the start of the machine
    assert second["history"][-1][3] == 70
    assert second["last_bad"] == [{}]


def test_a_pipeline_that_has_ended_has_no_rate() -> None:
    query = {"sink": "lake", "rows": 7, "rows_per_second": 250.5}
    states = ("failed", "finished", "running", "stopped")
    with run_broker(clock="virtual") as broker:
        with BulkConnection(Settings(port=broker.native_port or 0)) as bulk:
            for state in states:
                bulk.report_pipeline(state, {"state": state, "queries": [query]})
        with httpx.Client(
            timeout=60, base_url=str(broker.http_url), auth=("guest", "guest")
        ) as client:

            def rates() -> list[float]:
                rows = client.get("/api/pipelines").json()
                assert [(row["state"], row["queries"][0]["rows"]) for row in rows] == [
                    (state, 7) for state in states
                ]
                return [row["queries"][0]["rows_per_second"] for row in rows]

            assert rates() == [0, 0, 250.5, 0]
            broker.advance(61)  # it would have said that it runs
            assert rates() == [0, 0, 0, 0]
