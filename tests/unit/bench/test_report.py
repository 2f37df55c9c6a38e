"""What people and programs read after a run."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from headrace.bench import report
from headrace.bench.cases import CASES
from headrace.bench.chart import bar_chart, tick_step
from headrace.bench.load.measures import percentile
from headrace.bench.runner import CaseResult
from headrace.bench.target import Figure

NAMES = ["headrace", "rabbitmq"]


def flow(ours: Figure, theirs: Figure) -> CaseResult:
    return CaseResult(CASES["publish"], {"headrace": [ours], "rabbitmq": [theirs]})


def test_a_row_has_rates_ratio_and_cost() -> None:
    outcome = flow(Figure(400_000.0, 1.5, 0.9, 0.2), Figure(40_000.0, 30.0, 1.6, 0.1))

    row = report.tables([outcome], NAMES).splitlines()[-1].split()

    assert row == ["publish", "400,000", "40,000", "10.00", "1.50", "30.00"]


def test_a_saturated_generator_and_a_busy_machine_are_reported() -> None:
    outcome = flow(Figure(1.0, 1.0, 0.5, 0.95, 0.0), Figure(1.0, 1.0, 1.0, 0.1, 0.7))

    text = report.tables([outcome], NAMES)

    assert "headrace: generator at its limit; rabbitmq: others used 0.7 cores" in text


def test_a_durable_case_that_wrote_nothing_is_called_so() -> None:
    ours = Figure(1.0, 1.0, 1.0, 0.1, 0.0, {"disk_bytes": 3.0})
    theirs = Figure(1.0, 1.0, 1.0, 0.1, 0.0, {"disk_bytes": 300.0})
    figures = {"headrace": [ours], "rabbitmq": [theirs]}

    outcome = CaseResult(CASES["persistent-confirm"], figures)
    text = report.tables([outcome], NAMES)

    assert "headrace: NOT DURABLE" in text
    assert "rabbitmq: NOT" not in text
    assert outcome.ratio(*NAMES) is None
    assert CaseResult(CASES["celery-persistent"], figures).ratio(*NAMES) == 1.0


def test_a_failure_shows_its_reason_and_no_ratio() -> None:
    outcome = CaseResult(CASES["publish"], {"rabbitmq": [Figure(1.0)]}, {"headrace": "it closed"})

    text = report.tables([outcome], NAMES)

    assert "FAILED publish, headrace: it closed" in text
    assert "failed" in text.splitlines()[4]


def test_every_kind_of_case_has_its_table() -> None:
    details = {"p50_ms": 0.1, "p99_ms": 0.5, "max_ms": 3.0, "rss_mb": 30.0, "start_seconds": 0.3}
    details |= {"few_rate": 9.0, "many_per_few": 0.5, "few_cpu_us": 2.0, "growth_mb": 5.0}
    details |= {"share 1": 0.3, "share 2": 0.3, "share 3": 0.4}
    figure = Figure(2.0, 1.0, 1.0, 0.1, 0.0, details)
    outcomes = [CaseResult(case, {name: [figure] for name in NAMES}) for case in CASES.values()]

    text = report.tables(outcomes, NAMES)

    for title in ("Throughput", "Topic bindings", "Latency", "Memory", "shares 30.0% 30.0% 40.0%"):
        assert title in text
    assert all(name in text for name in CASES)


def test_the_document_is_json_with_every_round() -> None:
    outcome = flow(Figure(4.0), Figure(2.0))

    found = json.loads(json.dumps(report.document([outcome], NAMES, {"date": "today"})))

    assert found["cases"][0]["ratio"] == 2.0
    assert found["cases"][0]["rounds"]["rabbitmq"][0]["value"] == 2.0


def test_the_chart_is_well_formed_and_names_every_case() -> None:
    ratios = [("publish", 14.2), ("a < b & c", 0.5)]

    root = ElementTree.fromstring(bar_chart("Title", "Sub", ratios))

    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"publish", "14.2x", "a < b & c", "0.5x", "Title", "Sub"} <= texts


@pytest.mark.parametrize(
    ("largest", "step"), [(1, 0.2), (3, 0.5), (8, 1), (14, 2), (30, 5), (70, 10)]
)
def test_ticks_are_round_numbers(largest: float, step: float) -> None:
    assert tick_step(largest) == pytest.approx(step)


def test_percentiles_are_nearest_ranks() -> None:
    values = list(range(1, 101))

    assert [percentile(values, p) for p in (50, 99, 100)] == [50, 99, 100]
    assert percentile([7], 50) == 7
