"""Reports as a page: complete in itself, and harmless whatever queues are called."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.errors import BadOption
from headrace.spark.reports.html import nice, page, svg
from headrace.spark.reports.model import (
    Chart,
    Report,
    ReportTable,
    lines_of,
    seconds_of,
    window_for,
)

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(hours=1)
NASTY = "<script>alert('&')</script>"


def chart() -> Chart:
    line = [(SINCE + timedelta(minutes=n), float(n * n)) for n in range(0, 60, 10)]
    return Chart("Messages in", "messages/s", {NASTY: line, "empty": [(SINCE, 0.0)]})


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    table = ReportTable("Throughput", ("queue", "messages"), [(NASTY, 1234)])
    text = page(Report(SINCE, UNTIL, "1 minute", (table,), (chart(),), ("a note",)))
    assert "<script" not in text
    assert not re.search(r"https?:|src=|url\(|@import", text)
    assert "1,234" in text
    assert "a note" in text


def test_a_chart_is_well_formed_and_inside_its_frame() -> None:
    root = ET.fromstring(svg(chart(), SINCE, UNTIL))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    circles = root.findall("circle")
    assert len(circles) == 7
    for one in circles:
        assert 0 <= float(one.attrib["cx"]) <= width
        assert 0 <= float(one.attrib["cy"]) <= height


@given(st.floats(0, 1e12))
def test_a_scale_ends_above_the_highest_value_and_not_far(value: float) -> None:
    assert value <= nice(value) <= max(value * 2.5001, 1e-6)


@given(st.integers(1, 10_000_000))
def test_a_period_has_at_most_sixty_steps(seconds: int) -> None:
    steps = seconds / seconds_of(window_for(timedelta(seconds=seconds)))
    assert steps <= 60 or seconds > 60 * 86400


@pytest.mark.parametrize("text", ["", "0 minutes", "soon", "5 minutes; DROP", "-1 hour"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="--window: wanted"):
        seconds_of(text)


def test_the_largest_lines_are_drawn() -> None:
    points = [(f"q{n}", SINCE, float(n)) for n in range(20)]
    assert list(lines_of(points, most=3)) == ["q17", "q18", "q19"]
