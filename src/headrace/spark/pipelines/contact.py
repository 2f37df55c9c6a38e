"""Whether what a pipeline reads and writes is there, before anything else is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.spark.backends.base import backend_of
from headrace.spark.errors import PipelineFailed, SparkError
from headrace.spark.options import read_options
from headrace.spark.pipelines.model import Pipeline


def contact(pipeline: Pipeline) -> None:
    """PipelineFailed when a broker or database does not answer, or a name is not known there.

    A stream waits for a broker that is away for a moment; at the start nobody wants to wait.
    """
    for line, options in _places(pipeline):
        try:
            backend_of(read_options(options)).look()
        except SparkError as error:
            raise PipelineFailed(f"{pipeline.file}:{line}: {error}") from error


def _places(pipeline: Pipeline) -> Iterator[tuple[int, Mapping[str, str]]]:
    for source in pipeline.sources:
        yield source.line, source.options
    for sink in pipeline.sinks:
        if sink.type == "topic":
            wanted = {
                name: sink.settings[name] for name in ("url", "topic") if name in sink.settings
            }
            yield sink.line, wanted
