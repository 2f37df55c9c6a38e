"""Delta tables as Spark tables, without Delta's jar: read, and merge by key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.spark.errors import LakeError


def open_delta(path: str) -> DeltaTable:
    """LakeError when there is no table."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        raise LakeError(f"no Delta table at {path}") from None


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """The newest version of a table: the files that are part of it, and no others."""
    import pyarrow as pa

    table = open_delta(path)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()), prefer_timestamp_ntz=False)
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", path).parquet(*files)


def merge(table: DeltaTable, rows: pa.Table, keys: Sequence[str], app: str, version: int) -> None:
    """One commit: the last row of each key counts. Meant for results, which are small."""
    if not rows.num_rows:
        return
    same = " AND ".join(
        f"(t.`{key}` = s.`{key}` OR (t.`{key}` IS NULL AND s.`{key}` IS NULL))" for key in keys
    )
    properties = CommitProperties(app_transactions=[Transaction(app, version)])
    merger = table.merge(
        rows, same, source_alias="s", target_alias="t", commit_properties=properties
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
