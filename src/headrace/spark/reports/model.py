"""A report as it is shown: tables and charts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.spark.errors import BadOption

# Widths of the steps that a period is cut into.
_WINDOWS = (
    ("1 second", 1),
    ("10 seconds", 10),
    ("1 minute", 60),
    ("5 minutes", 300),
    ("15 minutes", 900),
    ("1 hour", 3600),
    ("6 hours", 21600),
    ("1 day", 86400),
)
MOST_STEPS = 60
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_WIDTH = re.compile(r"(\d+) (second|minute|hour|day)s?")


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows under a heading."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time, one for each name."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[datetime, float]]]


@dataclass(frozen=True, slots=True)
class Report:
    since: datetime
    until: datetime
    window: str
    tables: tuple[ReportTable, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()


def seconds_of(window: str) -> int:
    """The width of a step; BadOption when it is not a duration."""
    found = _WIDTH.fullmatch(window.strip())
    if found is None or not int(found[1]):
        raise BadOption(f"--window: wanted e.g. '5 minutes', not {window!r}")
    return int(found[1]) * _UNITS[found[2]]


def window_for(period: timedelta) -> str:
    """A step that cuts the period into at most sixty."""
    seconds = period.total_seconds()
    return next((name for name, width in _WINDOWS if seconds <= width * MOST_STEPS), "1 day")


def lines_of(
    rows: Sequence[tuple[str, datetime, float]], most: int = 8
) -> dict[str, list[tuple[datetime, float]]]:
    """Points by name, for the names with the largest values."""
    found: dict[str, list[tuple[datetime, float]]] = {}
    for name, at, value in rows:
        found.setdefault(name, []).append((at, value))
    top = sorted(found, key=lambda name: -sum(value for _, value in found[name]))[:most]
    return {name: sorted(found[name]) for name in sorted(top)}
