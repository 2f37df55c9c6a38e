"""A report, from the question to the figures."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.spark.reports.groups import group_lag
from headrace.spark.reports.inputs import from_broker, from_lake
from headrace.spark.reports.model import Report, seconds_of, window_for
from headrace.spark.reports.report import compute


def make(
    spark: SparkSession,
    url: str,
    since: datetime,
    until: datetime,
    window: str | None = None,
    lake: Path | None = None,
) -> Report:
    """From the lake, or from what the broker has."""
    width = window or window_for(until - since)
    seconds_of(width)  # refuses what is none, before anything is read
    if lake is not None:
        inputs = from_lake(spark, lake, since, until)
    else:
        inputs = from_broker(spark, url, since, until)
    made = compute(inputs, since, until, width)
    groups = group_lag(url)
    return made if groups is None else replace(made, tables=(*made.tables, groups))
