"""Prometheus: RabbitMQ's names, our own, sums and single objects."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from headrace.testing import RunningBroker, run_broker
from support.http_api import Api


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in parse(text)
        for one in family.samples
    }


def test_sums_need_no_login_and_name_nothing(api: Api, raw: httpx.Client, queue: str) -> None:
    api.publish(queue, delivery_mode=2)
    answer = raw.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert queue not in answer.text
    found = samples(answer.text)
    assert found["rabbitmq_queue_messages_ready", ()] >= 1
    assert found["rabbitmq_global_messages_received_total", ()] >= 1
    assert found["headrace_confirm_latency_seconds_count", ()] >= 1
    assert found["headrace_fsync_seconds_count", ()] >= 1
    assert ("headrace_event_loop_lag_seconds_bucket", (("le", "+Inf"),)) in found


DOCS = Path(__file__).parents[3] / "docs"
NAME = r"\b(?:rabbitmq|headrace)_[a-z_]*[a-z]\b"


@pytest.mark.parametrize("page", ["metrics.md", "grafana-dashboard.json"])
def test_every_metric_that_is_written_about_exists(raw: httpx.Client, page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    names = set(re.findall(NAME + r"(?![*_])", text.replace("_*", "*")))
    there = {name for name, _ in samples(raw.get("/metrics").text)}
    there |= {name.removesuffix(end) for name in there for end in ("_bucket", "_count", "_sum")}
    assert len(names) > 15
    assert sorted(names - there) == []


def test_single_queues_need_a_login(api: Api, raw: httpx.Client, queue: str) -> None:
    assert raw.get("/metrics/per-object").status_code == 401
    api.publish(queue)
    found = samples(api.call("GET", "/metrics/per-object").text)
    assert found["rabbitmq_queue_messages_ready", (("queue", queue), ("vhost", "/"))] == 1


def test_open_metrics_are_spoken(raw: httpx.Client) -> None:
    answer = raw.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert "openmetrics-text" in answer.headers["content-type"]
    assert answer.text.endswith("# EOF\n")


def test_counters_do_not_fall_when_a_queue_is_deleted() -> None:
    with run_broker(sync=False) as broker, Api(broker) as api:
        api.put("/api/queues/%2F/q")
        for _ in range(5):
            api.publish("q")
        api.take("q", 5)
        before = api.get("/api/overview")["message_stats"]
        api.delete("/api/queues/%2F/q")
        assert api.get("/api/overview")["message_stats"] == before
        assert before["publish"] == 5
        assert before["get"] == 5


def test_names_with_quotes_are_escaped(managed: RunningBroker, api: Api) -> None:
    api.put("/api/queues/%2F/quote%22%5C%0Aline", {})
    found = samples(api.call("GET", "/metrics/per-object").text)
    assert any(dict(labels).get("queue") == 'quote"\\\nline' for _, labels in found)
    api.delete("/api/queues/%2F/quote%22%5C%0Aline")
