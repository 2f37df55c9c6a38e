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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.spark.errors import LakeError, SinkRefused

# What tasks report to the driver about each file they wrote.
WRITTEN_DDL = "path string, size bigint, rows bigint, partition_values string"


@dataclass(slots=True)
class _OpenFile:
    path: str
    values: Mapping[str, str | None]
    writer: pq.ParquetWriter
    rows: int = 0


@dataclass(slots=True)
class FileWriter:
    """Writes rows to new files under a table's directory, one for each set of partition values.

    It travels to executors, which must see the directory under the same path.
    """

    root: str
    partition_by: tuple[str, ...] = ()
    _open: dict[tuple[str | None, ...], _OpenFile] = field(default_factory=dict)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes everything; yields one row for each file."""
        try:
            for batch in batches:
                if batch.num_rows:
                    for values, rows in self._parted(pa.table(batch)):
                        self._append(values, rows)
        finally:
            for one in self._open.values():
                one.writer.close()
        if done := [self._described(one) for one in self._open.values()]:
            yield pa.RecordBatch.from_pylist(done)

    def _parted(self, rows: pa.Table) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
        if not self.partition_by:
            yield (), rows
            return
        names = list(self.partition_by)
        body = rows.drop_columns(names)
        keys = rows.select(names)
        for group in keys.group_by(names).aggregate([]).to_pylist():
            mask = None
            for name in names:
                column = keys[name]
                same = pc.is_null(column) if group[name] is None else pc.equal(column, group[name])
                mask = same if mask is None else pc.and_(mask, same)
            values = tuple(None if group[n] is None else _as_text(group[n]) for n in names)
            yield values, body.filter(mask)

    def _append(self, values: tuple[str | None, ...], rows: pa.Table) -> None:
        one = self._open.get(values)
        if one is None:
            named = dict(zip(self.partition_by, values, strict=True))
            place = "/".join(f"{name}={_escaped(value)}" for name, value in named.items())
            path = f"{place}/{uuid.uuid4().hex}.parquet".lstrip("/")
            file = Path(self.root) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            one = _OpenFile(path, named, pq.ParquetWriter(file, rows.schema, compression="zstd"))
            self._open[values] = one
        one.writer.write_table(rows)
        one.rows += rows.num_rows

    def _described(self, one: _OpenFile) -> dict[str, object]:
        size = (Path(self.root) / one.path).stat().st_size
        values = json.dumps(dict(one.values))
        return {"path": one.path, "size": size, "rows": one.rows, "partition_values": values}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(value: str | None) -> str:
    """As Hive writes directories: every tool that reads partitions knows it."""
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(value, safe=" -_.~")


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
