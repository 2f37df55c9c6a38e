"""Delta tables without Java: tasks write Parquet files, the driver commits all of them at once.

A commit carries application transactions, (name, version) each: what was committed under a version
before is not committed again. Files of tasks that failed are part of no table. Spark reads the
files without Delta's jar.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.spark.errors import LakeError, SinkRefused

MAX_PARTITIONS = 1 << 20  # of one task
_NULL = "__HIVE_DEFAULT_PARTITION__"  # a directory of rows without a value
# What tasks report to the driver about each file they wrote.
WRITTEN_DDL = "path string, size bigint, rows bigint, partition_values string"


def write_files(
    batches: Iterable[pa.RecordBatch], root: str, partition_by: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Write rows to new files under a table's directory, at least one for each set of partition
    values; yields a row for each file. Executors must see the directory under the same path."""
    filled = (one for one in batches if one.num_rows)
    first = next(filled, None)
    if first is None:
        return
    done: list[dict[str, object]] = []

    def note(file: ds.WrittenFile) -> None:
        path = Path(file.path).relative_to(root)
        texts = dict(part.split("=", 1) for part in path.parts[:-1])
        values = {name: None if text == _NULL else unquote(text) for name, text in texts.items()}
        rows = file.metadata.num_rows
        done.append({"path": str(path), "size": file.size, "rows": rows,
                     "partition_values": json.dumps(values)})  # fmt: skip

    fields = [first.schema.field(name) for name in partition_by]
    ds.write_dataset(
        chain((first,), filled),
        root,
        schema=first.schema,
        format="parquet",
        file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
        partitioning=ds.partitioning(pa.schema(fields), flavor="hive"),
        max_partitions=MAX_PARTITIONS,
        basename_template=uuid.uuid4().hex + "-{i}.parquet",
        existing_data_behavior="overwrite_or_ignore",  # the names are new
        file_visitor=note,
        use_threads=False,  # Spark runs a task for each core
    )
    yield pa.RecordBatch.from_pylist(done)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that waits for its commit."""

    path: str
    size: int
    rows: int
    partition_values: str

    @property
    def action(self) -> AddAction:
        return AddAction(
            self.path,
            self.size,
            json.loads(self.partition_values),
            int(time.time() * 1000),
            True,
            json.dumps({"numRecords": self.rows}),
        )


def open_table(root: str, schema: pa.Schema, partition_by: Sequence[str]) -> DeltaTable:
    """The table, created if it does not exist; SinkRefused when it has other columns."""
    try:
        table = DeltaTable(root)
    except TableNotFoundError:
        if Path(root).is_dir() and any(Path(root).iterdir()):
            raise SinkRefused(
                f"{root} is not empty and is not a Delta table: nothing was written. Choose "
                "another directory"
            ) from None
        return DeltaTable.create(root, schema, mode="ignore", partition_by=list(partition_by))
    found = pa.schema(table.schema().to_arrow())
    has, gets = ({one.name: str(one.type) for one in each} for each in (found, schema))
    normal = {name: kind.replace("large_", "").replace("_view", "") for name, kind in has.items()}
    if normal != {name: kind.replace("large_", "") for name, kind in gets.items()}:
        raise SinkRefused(
            f"the table {root} has {_columns(normal)}, but would get {_columns(gets)}: nothing "
            "was written. Name another path, or cast the columns"
        )
    if list(table.metadata().partition_columns) != list(partition_by):
        raise SinkRefused(
            f"the table {root} is partitioned by {table.metadata().partition_columns}, not by "
            f"{list(partition_by)}: nothing was written"
        )
    return table


def _columns(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in found.items())


def count_rows(root: str) -> int:
    """How many rows a table has; none when there is no table."""
    try:
        actions = DeltaTable(root).get_add_actions(flatten=True)
    except TableNotFoundError:
        return 0
    return sum(pa.table(actions).column("num_records").to_pylist())


def last_rows(root: str, count: int) -> list[dict[str, Any]]:
    """The last rows of the newest file of a table; none when there is no table."""
    try:
        files = pa.table(DeltaTable(root).get_add_actions()).sort_by("modification_time")
    except TableNotFoundError:
        return []
    if not files.num_rows:
        return []
    rows = pq.read_table(Path(root) / unquote(files["path"][-1].as_py()))
    return list(rows.slice(max(0, rows.num_rows - count)).to_pylist())


def is_committed(table: DeltaTable, app: str, version: int) -> bool:
    """Whether this version or a later one is in the table."""
    known = table.transaction_version(app)
    return known is not None and known >= version


def commit(table: DeltaTable, files: Sequence[WrittenFile], versions: Mapping[str, int]) -> None:
    """All files and all versions in one step; LakeError when another writer was faster."""
    properties = CommitProperties(
        app_transactions=[Transaction(app, version) for app, version in versions.items()]
    )
    partition_by = list(table.metadata().partition_columns)
    try:
        table.create_write_transaction(
            [one.action for one in files],
            "append",
            table.schema(),
            partition_by=partition_by,
            commit_properties=properties,
        )
    except CommitFailedError as error:
        raise LakeError(
            f"another program wrote the same rows to {table.table_uri} at the same moment: nothing "
            f"was written twice; run one at a time ({error})"
        ) from error


# -- as tables of Spark ----------------------------------------------------------------------------


def open_delta(path: str) -> DeltaTable:
    """LakeError when there is no table."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        raise LakeError(f"no Delta table at {path}") from None


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """The newest version of a table: the files that are part of it, and no others."""
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
