"""The lag of consumer groups, which only a running broker knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.errors import HeadraceError
from headrace.spark.backends.broker import connect
from headrace.spark.errors import SparkError
from headrace.spark.reports.model import ReportTable
from headrace.wire.native.payloads import Op


def group_lag(url: str) -> ReportTable | None:
    """None when no broker answers, or when there are no groups."""
    try:
        with connect(url) as connection:
            rows = connection.call(Op.LIST, kind="groups", page=0)["rows"]
    except (HeadraceError, SparkError):
        return None
    found = sorted((row["topic"], _reader(row), _waiting(row)) for row in rows)
    columns = ("topic", "group", "lag")
    return ReportTable("Groups", columns, found, "As of now.") if found else None


def _reader(row: Mapping[str, Any]) -> str:
    """A reader on its own has a token instead of a group."""
    return str(row["group"]) or f"{row['token']} (alone)"


def _waiting(row: Mapping[str, Any]) -> int:
    """Over all lanes; see the answer to `list groups` in the native protocol."""
    return sum(int(lane[3]) for lane in row["lag"])
