"""The archive as tables for SQL: `messages`, and one of the name of each queue and topic."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.spark.archive.layout import TABLE, table_path
from headrace.spark.errors import BadOption, LakeError, SparkMissing, refusal_of
from headrace.spark.jar import jar
from headrace.spark.lake.delta import open_delta, read_delta


def has_archive(lake: Path | str) -> bool:
    return Path(table_path(lake)).is_dir()


def sources_of(lake: Path | str) -> dict[str, int]:
    """How many messages of each source are archived."""
    if not has_archive(lake):
        raise LakeError(f"no archive in {lake}: create one with `headrace archive --lake {lake}`")
    actions = pa.table(open_delta(table_path(lake)).get_add_actions(flatten=True))
    counts: dict[str, int] = {}
    for source, rows in zip(
        actions["partition.source"].to_pylist(), actions["num_records"].to_pylist(), strict=True
    ):
        counts[source] = counts.get(source, 0) + rows
    return dict(sorted(counts.items()))


def messages(spark: SparkSession, lake: Path | str) -> DataFrame:
    """All messages, with the body also as `text` where it is UTF-8."""
    sources_of(lake)  # says clearly when there is none
    rows = read_delta(spark, table_path(lake))
    return rows.withColumn("text", F.try_validate_utf8(F.col("body").cast("string")))


def offer(spark: SparkSession, lake: Path | str) -> list[str]:
    """Makes the tables known; returns their names."""
    rows = messages(spark, lake)
    rows.createOrReplaceTempView(TABLE)
    names = {TABLE: TABLE}
    for source in sources_of(lake):
        # Spark ignores case: of equal names the first gets a view, `messages` has them all.
        if names.setdefault(source.lower(), source) == source and source != TABLE:
            quoted = source.replace("`", "``")
            rows.where(F.col("source") == source).createOrReplaceTempView(f"`{quoted}`")
    return sorted(map(_written, names.values()))


def attach(spark: SparkSession, url: str) -> list[str]:
    """Makes the queues and topics of a running broker known as live.NAME; returns these names."""
    if jar() is None:
        raise SparkMissing("--live needs the jar for Spark: pip install headrace-spark-jar")
    spark.conf.set("spark.sql.catalog.live", "headrace.spark.HeadraceCatalog")
    spark.conf.set("spark.sql.catalog.live.url", url)
    found = spark.sql("SHOW TABLES IN live").collect()
    return [f"live.{_written(row.tableName)}" for row in found]


def query(spark: SparkSession, sql: str, names: list[str]) -> DataFrame:
    """The result of a query; BadOption when it is not valid, with the known tables."""
    try:
        return spark.sql(sql)
    except AnalysisException as error:
        raise BadOption(refusal_of(error, "table", names)) from error


def _written(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
