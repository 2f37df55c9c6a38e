"""Delta tables as Spark tables, without the jar of Delta."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.spark.errors import LakeError


def open_delta(path: str) -> DeltaTable:
    """LakeError when there is no table."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        raise LakeError(f"there is no Delta table at {path}") from None


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """The newest version of a table: the files that are part of it, and no others."""
    import pyarrow as pa

    table = open_delta(path)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()), prefer_timestamp_ntz=False)
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", path).parquet(*files)
