"""A replay in slices: what is staged at a time, whatever there is to replay."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.spark.replay.staging import NEEDED, PLACE

BLOCKS = 64  # the broker has a file open for each
BYTES = 64 << 20  # on the broker's disk
SECONDS = 600.0  # of sending: the broker forgets after an hour what was not published
_ORDER = ("kind", "source", *PLACE)


def sliced(rows: DataFrame, rate: float) -> DataFrame:
    """The slice of each block. One holds as much as the limits allow, and its last block."""
    blocks = rows.groupBy(*_ORDER).agg(
        F.count("*").alias("rows"), F.sum(F.octet_length("body")).alias("bytes")
    )
    share = F.greatest(
        F.lit(1 / BLOCKS), F.col("bytes") / BYTES, F.col("rows") / F.lit(rate * SECONDS)
    )
    earlier = Window.orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum(share).over(earlier), F.lit(0.0))
    return blocks.select(*PLACE, F.floor(before).cast("int").alias("slice"))


def placed(rows: DataFrame, slices: DataFrame, count: int) -> DataFrame:
    """The rows, each slice a partition, in the order of their offsets.

    A block that nobody knew when the slices were made would be sent behind later ones, and the
    broker takes no block that comes behind a later one: it is an error.
    """
    unknown = F.raise_error(F.lit("messages came into the period meanwhile: repeat the replay"))
    known = F.coalesce(F.col("slice"), unknown.cast("int"))
    joined = rows.select("kind", *NEEDED).join(slices, [*PLACE], "left").withColumn("slice", known)
    return (
        joined.repartitionById(count, "slice")
        .sortWithinPartitions(*_ORDER, "offset")
        .select(*NEEDED)
    )
