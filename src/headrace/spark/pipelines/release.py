"""The end of a query: what its checkpoint knows to be done need not be held any longer.

Spark lets go of a batch when it plans the next one, which a query that has ended never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.spark.backends.base import backend_of
from headrace.spark.errors import SourceChanged, SparkError
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.pipelines.model import Pipeline
from headrace.spark.pipelines.steps import group_of


def release(spark: SparkSession, pipeline: Pipeline, sink: str, checkpoint: str) -> None:
    """Move the pins of a query that has ended behind its last batch in the commit log.

    A broker that does not answer, or a checkpoint that cannot be read any more, leaves the batch
    held until the next run: no harm is done.
    """
    try:
        found = committed(spark, checkpoint)
    except (Py4JJavaError, PySparkException):
        return
    readers = [*_readers(pipeline, sink)]
    times = Counter((one.group, one.kind, one.names) for one in readers)
    for one in readers:
        fitting = [at for at in found if at.query == one.group and _names(at, one) == {*one.names}]
        # Who reads a source twice has one pin for both: which is behind cannot be told from here.
        if len(fitting) == 1 and times[one.group, one.kind, one.names] == 1:
            with suppress(SparkError, OSError):
                backend_of(one).pin(fitting[0])


def _names(at: StreamOffset, options: ReadOptions) -> set[str]:
    """Of RocketMQ, each source is a topic at a broker."""
    known = {*options.names}
    return {name if name in known else name.rpartition("@")[0] for name in at.sources}


def _readers(pipeline: Pipeline, sink: str) -> Iterator[ReadOptions]:
    for source in pipeline.sources:
        yield read_options({**source.options, "group": group_of(pipeline, source, sink)})


def committed(spark: SparkSession, checkpoint: str) -> list[StreamOffset]:
    """Where the last batch that the commit log has ends; nothing when there is none."""
    jvm, java = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(checkpoint, "commits")
    files = path.getFileSystem(java.hadoopConfiguration())
    if not files.exists(path):
        return []
    names = [one.getPath().getName() for one in files.listStatus(path)]
    batches = [int(name) for name in names if name.isdigit()]
    if not batches:
        return []
    stream = files.open(jvm.org.apache.hadoop.fs.Path(checkpoint, f"offsets/{max(batches)}"))
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return [*_offsets(text)]


def _offsets(text: str) -> Iterator[StreamOffset]:
    """A version, a line about the batch, then a line for each source; others than ours may be."""
    for line in text.splitlines()[2:]:
        with suppress(SourceChanged):
            yield StreamOffset.from_json(line)
