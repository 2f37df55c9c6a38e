"""`headrace archive`: rounds that plan, pin, write and commit.

A round plans ranges of offsets, pins them at the broker, lets tasks write them to Parquet files,
commits the files, and moves the pins behind them.

How far each partition is archived is part of the commit that adds its rows: no other record of it
exists that could disagree. A round that is repeated after a crash therefore adds nothing twice,
and files without a commit belong to no table.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.spark.archive.layout import PARTITION_BY, SCHEMA, as_rows, table_path
from headrace.spark.archive.round_plan import (
    ROWS_PER_ROUND,
    ArchivePosition,
    ArchiveTask,
    plan,
    positions,
)
from headrace.spark.archive.sources import ArchiveChoice, archive_sources
from headrace.spark.backends.broker import BrokerBackend, connect, translated_errors
from headrace.spark.errors import LakeError
from headrace.spark.lake.delta import WRITTEN_DDL, WrittenFile, commit, open_table, write_files
from headrace.spark.options import PIN_BYTES, read_options
from headrace.spark.task_plan import TaskRange
from headrace.urls import parse_broker_url

PATIENCE_SECONDS = 60.0  # for a broker that is being restarted
_TASK_DDL = (
    "kind string, source string, uuid string, partition int, start bigint, end bigint, "
    "checked boolean"
)


@dataclass(frozen=True, slots=True)
class ArchiveRound:
    rows: int
    sources: int
    waiting: int  # messages that are left for the next


@dataclass(frozen=True, slots=True)
class Archiver:
    """One archive of one vhost."""

    spark: SparkSession
    lake: Path
    url: str
    choice: ArchiveChoice = field(default_factory=ArchiveChoice)
    pin_bytes: int = PIN_BYTES
    skip_lost: bool = False
    rows_per_round: int = ROWS_PER_ROUND

    @property
    def root(self) -> str:
        return table_path(self.lake)

    @property
    def vhost(self) -> str:
        return parse_broker_url(self.url).vhost

    def run(
        self,
        *,
        once: bool,
        stop: threading.Event,
        every: float = 10.0,
        report: Callable[[ArchiveRound], None] = lambda done: None,
    ) -> int:
        """Run until ``stop`` is set, or until everything is archived; returns how many rows."""
        total = 0
        self.lake.mkdir(parents=True, exist_ok=True)
        with _alone(self.lake):
            while not stop.is_set():
                done = self.round()
                total += done.rows
                if done.rows:
                    report(done)
                if not done.waiting:
                    if once:
                        break
                    stop.wait(every)
        return total

    def round(self) -> ArchiveRound:
        """Everything there is now, up to the limit of a round."""
        table = open_table(self.root, SCHEMA, PARTITION_BY)
        found = self._pinned(table)
        tasks, after = plan(found, self.rows_per_round)
        rows = 0
        if tasks:
            files = self._write(tasks)
            rows = sum(one.rows for one in files)
            versions = {
                _application(new.source.uuid, new.partition): new.start
                for old, new in zip(found, after, strict=True)
                if new.known != old.known
            }
            commit(table, files, versions)
            self._pin(table, after)
        waiting = sum(one.range.end - one.start for one in after)
        names = {(one.kind, one.source) for one in tasks}
        return ArchiveRound(rows, len(names), waiting)

    def release(self) -> None:
        """Remove the pins of this archive."""
        table = DeltaTable(self.root)
        with connect(self.url) as connection, translated_errors():
            connection.unpin(_query(table))

    # -- pinning --------------------------------------------------------------------------------

    def _pinned(self, table: DeltaTable) -> list[ArchivePosition]:
        """The positions, pinned from now on. They are read again after pinning: what was
        acknowledged before it may be gone."""

        def known(uuid: str, partition: int) -> int | None:
            return table.transaction_version(_application(uuid, partition))

        with connect(self.url, PATIENCE_SECONDS) as connection:
            before = positions(archive_sources(connection, self.choice), known, self.skip_lost)
            self._pin(table, before)
            return positions(archive_sources(connection, self.choice), known, self.skip_lost)

    def _pin(self, table: DeltaTable, found: list[ArchivePosition]) -> None:
        pins: dict[str, dict[str, tuple[str, dict[int, int]]]] = {}
        for one in found:
            of_kind = pins.setdefault(one.source.kind, {})
            entry = of_kind.setdefault(one.source.name, (one.source.uuid, {}))
            entry[1][one.partition] = one.start
        with connect(self.url, PATIENCE_SECONDS) as connection, translated_errors():
            for kind, of_kind in pins.items():
                connection.pin(_query(table), kind, of_kind, self.pin_bytes)

    # -- reading --------------------------------------------------------------------------------

    def _write(self, tasks: list[ArchiveTask]) -> list[WrittenFile]:
        rows = [tuple(asdict(one).values()) for one in tasks]
        parts = self.spark.sparkContext.parallelize(rows, len(rows))
        frame = self.spark.createDataFrame(parts, _TASK_DDL)
        task = _Task(self.url, self.vhost, self.root)
        return [
            WrittenFile(**row.asDict()) for row in frame.mapInArrow(task, WRITTEN_DDL).collect()
        ]


@dataclass(frozen=True, slots=True)
class _Task:
    """Reads tasks and writes them to files; it travels to executors. The rows go from the
    broker to Parquet as Arrow batches: Java never sees them."""

    url: str
    vhost: str
    root: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks = (ArchiveTask(**row) for batch in batches for row in batch.to_pylist())
        rows = (batch for one in tasks for batch in self._read(one))
        yield from write_files(rows, self.root, PARTITION_BY)

    def _read(self, one: ArchiveTask) -> Iterator[pa.RecordBatch]:
        given: Mapping[str, str] = {"url": self.url, one.kind: one.source}
        options = replace(
            read_options(given),
            is_stream=True,
            fail_on_data_loss=one.checked,
        )
        part = TaskRange(one.source, one.partition, one.start, one.end)
        for batch in BrokerBackend(options).batches(part, one.uuid):
            yield as_rows(batch, self.vhost, one.kind, one.uuid)


def _application(uuid: str, partition: int) -> str:
    """The name under which the table keeps how far a partition is archived."""
    return f"headrace-archive:{uuid}:{partition}"


def _query(table: DeltaTable) -> str:
    """The name of the pin: one for each archive, wherever it is run."""
    return f"archive-{table.metadata().id}"


@contextmanager
def _alone(lake: Path) -> Iterator[None]:
    """Two at a time would do the same work twice, and one of them would fail to commit."""
    with (lake / ".archive.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LakeError(f"{lake} is in use by another `headrace archive`") from None
        yield
