"""Sources, tables and steps as views of a Spark session."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.errors import BadOption, reason_of, refusal_of
from headrace.spark.lake.delta import read_delta
from headrace.spark.pipelines.decode import decoded
from headrace.spark.pipelines.model import Pipeline, SourceSpec, StepSpec, TableSpec, Watermark

PREVIOUS = "previous"  # the view that a step can call the one before it by
_POSITION = re.compile(r"line (\d+),? pos (\d+)")

ReadSource = Callable[[SourceSpec], DataFrame]


@dataclass(slots=True)
class Views:
    """What the sinks of a pipeline can take from."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    bad: dict[str, DataFrame] = field(default_factory=dict)  # by source


def build(spark: SparkSession, pipeline: Pipeline, read: ReadSource) -> Views:
    """All views, in order. ``read`` gives the messages of a source."""
    views = Views()
    previous: DataFrame | None = None
    for source in pipeline.sources:
        try:
            found = decoded(read(source), source.decode)
        except (BadOption, PySparkException) as error:
            raise pipeline.error(source.line, reason_of(error)) from error
        if found.bad is not None:
            views.bad[source.name] = found.bad
        previous = _marked(pipeline, found.good, source.watermark, source.line)
        _offer(views, source.name, previous)
    for table in pipeline.tables:
        _offer(views, table.name, _table(spark, pipeline, table))
    for step in pipeline.steps:
        assert previous is not None, "there is a source"
        previous.createOrReplaceTempView(PREVIOUS)
        previous = _step(spark, pipeline, step, previous, [*views.frames])
        _offer(views, step.name, previous)
    return views


def stream_of(spark: SparkSession, pipeline: Pipeline, sink: str) -> ReadSource:
    """Sources as streams of the broker, for one sink.

    Each query reads at its own pace, so each has a group, and with it a pin.
    """

    def read(source: SourceSpec) -> DataFrame:
        options = {**source.options, "group": group_of(pipeline, source, sink)}
        return spark.readStream.format("headrace").options(**options).load()

    return read


def group_of(pipeline: Pipeline, source: SourceSpec, sink: str) -> str:
    return f"{source.options.get('group', pipeline.name)}.{sink}"


def _offer(views: Views, name: str, frame: DataFrame) -> None:
    views.frames[name] = frame
    frame.createOrReplaceTempView(f"`{name}`")


def _table(spark: SparkSession, pipeline: Pipeline, table: TableSpec) -> DataFrame:
    try:
        if table.format == "delta":
            return read_delta(spark, table.path)
        reader = spark.read.format(table.format).options(**table.options)
        return (reader.schema(table.schema) if table.schema else reader).load(table.path)
    except PySparkException as error:
        raise pipeline.error(table.line, reason_of(error)) from error


def _step(
    spark: SparkSession, pipeline: Pipeline, step: StepSpec, previous: DataFrame, known: list[str]
) -> DataFrame:
    if step.sql is not None:
        try:
            found = spark.sql(step.sql)
        except PySparkException as error:
            raise pipeline.error(
                _sql_line(step, str(error)), refusal_of(error, "view", known)
            ) from error
    else:
        found = _called(pipeline, step, previous)
    return _marked(pipeline, found, step.watermark, step.line)


def _sql_line(step: StepSpec, text: str) -> int:
    position = _POSITION.search(text)
    return step.sql_line + (int(position[1]) - 1 if position is not None else 0)


def _called(pipeline: Pipeline, step: StepSpec, previous: DataFrame) -> DataFrame:
    assert step.python is not None
    name, _, function = step.python.partition(":")
    directory = str(pipeline.directory.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        call = getattr(importlib.import_module(name), function)
        found = call(previous)
    except Exception as error:
        text = f"{step.python}: {type(error).__name__}: {reason_of(error)}"
        raise pipeline.error(step.line, text) from error
    if not isinstance(found, DataFrame):
        raise pipeline.error(
            step.line,
            f"{step.python} returned a {type(found).__name__}, expected a DataFrame",
        )
    return found


def _marked(
    pipeline: Pipeline, frame: DataFrame, watermark: Watermark | None, line: int
) -> DataFrame:
    if watermark is None:
        return frame
    kinds = dict(frame.dtypes)
    kind = kinds.get(watermark.column)
    if kind is None:
        text = f"watermark: unknown column '{watermark.column}'; expected one of {', '.join(kinds)}"
        raise pipeline.error(line, text)
    if kind not in ("timestamp", "struct<start:timestamp,end:timestamp>"):
        raise pipeline.error(
            line, f"watermark: '{watermark.column}' is a {kind}, expected a timestamp"
        )
    return frame.withWatermark(watermark.column, watermark.delay)
