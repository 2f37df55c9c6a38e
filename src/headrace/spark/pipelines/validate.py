"""`headrace pipeline validate`: everything that can be checked without running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.backends.base import backend_of
from headrace.spark.errors import (
    BadOption,
    PipelineFailed,
    SinkRefused,
    SparkError,
    reason_of,
)
from headrace.spark.options import chosen, ddl, read_options
from headrace.spark.pipelines.model import Pipeline, SinkSpec, SourceSpec
from headrace.spark.pipelines.sinks import check_sink
from headrace.spark.pipelines.steps import ReadSource, Views, build


def check(spark: SparkSession, pipeline: Pipeline) -> Views:
    """BadPipeline when SQL, names, types or sinks do not fit. Nothing is read or written."""
    views = build(spark, pipeline, _empty_stream(spark))
    for sink in pipeline.sinks:
        frame = views.frames[sink.view]
        try:
            check_sink(frame, sink)
            _check_streaming(spark, frame, sink)
        except (BadOption, SinkRefused, PySparkException) as error:
            text = f"sink '{sink.name}': {reason_of(error)}"
            raise pipeline.error(sink.line, text) from error
    return views


def _empty_stream(spark: SparkSession) -> ReadSource:
    """Streams with the columns of messages that never have a row."""

    def read(source: SourceSpec) -> DataFrame:
        ticks = spark.readStream.format("rate").load()
        types = dict(one.split(" ", 1) for one in ddl(chosen("")).split(", "))
        columns = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in types.items())
        return ticks.selectExpr(*columns)

    return read


def _check_streaming(spark: SparkSession, frame: DataFrame, sink: SinkSpec) -> None:
    """What only a streaming query refuses, such as an aggregation without a watermark."""
    jvm = spark._jvm
    assert jvm is not None
    catalyst = jvm.org.apache.spark.sql.catalyst
    mode = getattr(catalyst.streaming.InternalOutputModes, f"{sink.mode.capitalize()}$")
    checker = catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), getattr(mode, "MODULE$"))


def contact(pipeline: Pipeline) -> None:
    """PipelineFailed when a broker or database does not answer, or a name is not known there.

    A running stream waits for an unreachable broker; the start does not.
    """
    for line, options in _destinations(pipeline):
        try:
            backend_of(read_options(options)).sources()
        except SparkError as error:
            raise PipelineFailed(f"{pipeline.file}:{line}: {error}") from error


def _destinations(pipeline: Pipeline) -> Iterator[tuple[int, Mapping[str, str]]]:
    for source in pipeline.sources:
        yield source.line, source.options
    for sink in pipeline.sinks:
        if sink.type == "topic":
            wanted = {
                name: sink.settings[name] for name in ("url", "topic") if name in sink.settings
            }
            yield sink.line, wanted
