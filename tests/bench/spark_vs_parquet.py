"""Reading topics and queues in Spark beside reading the same rows from Parquet, in one run.

    .venv/bin/python tests/bench/spark_vs_parquet.py [ROWS] [ROUNDS] [JSON FILE]

Rates are rows per second into the noop sink, all columns, local[2]; the ratio is what counts. Each
case is compared with a Parquet copy of its own rows; `per-row reader` is the same topic read by a
source that hands its rows over one by one. `ready-made batches` are the rows of the topic in a file
of Arrow batches which a source maps and hands over: what Spark needs to take rows from Python at
all, so no source in Python can do better. Topics in MySQL are left out without MariaDB. Spark needs
a while to plan a read from Python, whatever it reads: `nothing` shows how long, as reads per second
of no rows.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace import topics
from headrace.bench import processes
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import mariadb
from headrace.wire.native.payloads import Op
from support import brokers
from support.spark_lab.sessions import new_session

SIZES = (100, 1000)
PORTION = 4000
ROWS_PER_TASK = "250000"


@dataclass(frozen=True)
class Case:
    """A table to read, and what it is compared with."""

    name: str
    read: Callable[[], Any]
    base: str
    rows: int


def _bodies(size: int) -> Callable[[int], bytes]:
    noise = os.urandom(1 << 20)  # no two bodies are equal: Parquet would keep one of them

    def body(n: int) -> bytes:
        at = n * 7919 % (len(noise) - size)
        return noise[at : at + size]

    return body


def _fill(bulk: BulkConnection, rows: int, size: int) -> None:
    bulk.call(Op.TOPIC_DECLARE, name=f"t{size}", queues=2)
    bulk.call(Op.QUEUE_DECLARE, name=f"q{size}", durable=True)
    body = _bodies(size)
    for start in range(0, rows, PORTION):
        numbers = range(start, min(start + PORTION, rows))
        bulk.call(
            Op.APPEND,
            topic=f"t{size}",
            token="appid-1",
            batch=[{"priority": "middle", "key": f"k{n}", "message_id": f"m{n}", "body": body(n)}
                   for n in numbers],
        )  # fmt: skip
        bulk.call(
            Op.PUBLISH,
            batch=[{"exchange": "", "key": f"q{size}", "body": body(n),
                    "properties": {"delivery_mode": 2, "message_id": f"m{n}"}} for n in numbers],
        )  # fmt: skip


def _fill_database(url: str, rows: int, size: int) -> None:
    body = _bodies(size)
    with topics.open(url) as store:
        store.create(f"t{size}", queues=2)
        producer = store.producer(f"t{size}", token="appid-1")
        for start in range(0, rows, PORTION):
            numbers = range(start, min(start + PORTION, rows))
            producer.append_many([topics.NewMessage(body(n), ref_key=f"k{n}") for n in numbers])
        # What was appended last becomes readable a moment later.
        reader = store.consumer(f"t{size}", token="bench")
        while sum(lag.end - 1 for lag in reader.lag().values()) < rows:
            time.sleep(0.1)


def _per_row_source() -> type:
    """A data source as one writes it first: a tuple for each row."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    from headrace.bulk.columns import COLUMNS
    from headrace.spark.columns import ddl
    from headrace.spark.options import read_options
    from headrace.spark.reader import BatchReader

    class Rows(BatchReader):
        def read(self, task: InputPartition) -> Iterator[Any]:
            for batch in super().read(task):
                columns = [column.to_pylist() for column in batch.columns]
                at = batch.schema.names.index("properties")
                columns[at] = [dict(one) for one in columns[at]]
                yield from zip(*columns, strict=True)

    class PerRow(DataSource):
        @classmethod
        def name(cls) -> str:
            return "per-row"

        def schema(self) -> str:
            return ddl(tuple(COLUMNS))

        def reader(self, schema: object) -> DataSourceReader:
            return Rows(read_options(self.options))

    return PerRow


def _ready_source() -> type:
    """A data source with nothing to do: it maps a file of batches."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    from headrace.bulk.columns import COLUMNS
    from headrace.spark.columns import ddl

    class Batches(DataSourceReader):
        def __init__(self, path: str, tasks: int) -> None:
            self._path = path
            self._tasks = tasks

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(self._tasks)]

        def read(self, task: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            file = pa.ipc.open_file(pa.memory_map(self._path))
            count = file.num_record_batches
            low, high = (count * (task.value + end) // self._tasks for end in (0, 1))
            return (file.get_batch(number) for number in range(low, high))

    class Ready(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ready"

        def schema(self) -> str:
            return ddl(tuple(COLUMNS))

        def reader(self, schema: object) -> DataSourceReader:
            return Batches(self.options["file"], int(self.options["tasks"]))

    return Ready


def _save_batches(path: Path, url: str, topic: str) -> None:
    """All rows of a topic as a file of Arrow batches."""
    import pyarrow as pa

    from headrace.spark.options import read_options
    from headrace.spark.reader import BatchReader

    reader = BatchReader(read_options({"url": url, "topic": topic}))
    batches = (batch for task in reader.partitions() for batch in reader.read(task))
    first = next(batches)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)


def _counts(rows: int, size: int) -> tuple[int, int]:
    """Of queues and topics, and of topics in MySQL, which take long to fill."""
    rows = rows if size <= 100 else rows // 4
    return rows, rows * 3 // 10


def _cases(
    spark: Any,  # noqa: ANN401
    broker_url: str,
    database_url: str | None,
    directory: Path,
    size: int,
    counts: tuple[int, int],
) -> list[Case]:
    def table(kind: str, url: str, form: str = "headrace", **more: str) -> Any:  # noqa: ANN401
        reader = spark.read.format(form).option("url", url).option("rowsPerTask", ROWS_PER_TASK)
        return reader.options(**more).option(kind, f"{kind[0]}{size}").load()

    found: list[Case] = []

    def add(name: str, kind: str, url: str, rows: int) -> None:
        place = str(directory / f"{name}-{size}".replace(" ", "-"))
        table(kind, url).write.mode("overwrite").parquet(place)
        base = f"{name}, from Parquet"
        found.append(Case(base, lambda: spark.read.parquet(place), base, rows))
        found.append(Case(name, lambda: table(kind, url), base, rows))

    add("topic", "topic", broker_url, counts[0])
    base = "topic, from Parquet"
    few = {"endingOffsets": json.dumps({f"t{size}": {str(n): counts[0] // 16 for n in (0, 1)}})}
    found.append(
        Case("per-row reader", lambda: table("topic", broker_url, "per-row", **few), base,
             counts[0] // 8)
    )  # fmt: skip
    ready = directory / f"ready-{size}.arrow"
    _save_batches(ready, broker_url, f"t{size}")
    tasks = str(max(counts[0] // int(ROWS_PER_TASK), 2))
    made = spark.read.format("ready").option("file", str(ready)).option("tasks", tasks)
    found.append(Case("ready-made batches", made.load, base, counts[0]))
    none = {"startingOffsets": "latest"}
    found.append(Case("nothing", lambda: table("topic", broker_url, **none), base, 1))
    add("queue with distinct ids", "queue", broker_url, counts[0])
    if database_url is not None:
        add("topic in MySQL", "topic", database_url, counts[1])
    return found


@dataclass(frozen=True)
class Figure:
    """Of one reading; ``cost`` is processor time of everybody who took part, in µs per row."""

    rate: float
    cost: float


def _read(read: Callable[[], Any], rows: int, pids: Callable[[], list[int]]) -> Figure:
    before = processes.cpu_seconds(pids())
    started = time.perf_counter()
    read().write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    return Figure(rows / seconds, (processes.cpu_seconds(pids()) - before) * 1e6 / rows)


Medians = dict[str, tuple[float, float, float]]


def measure(rows: int, rounds: int, tell: Callable[[str], object]) -> dict[int, Medians]:
    """By size and case: rows per second, the ratio to Parquet, µs of processor time per row."""
    counts = {size: _counts(rows, size) for size in SIZES}
    figures: dict[int, Medians] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = brokers.start(folder)
        stack.callback(broker.stop)
        database_url = None
        roots = [os.getpid(), broker.pid or 0]
        if mariadb.find_server() is not None:
            (folder / "db").mkdir()
            # Parquet files are in memory by then, and so may the tables be.
            server = mariadb.prepare(folder / "db", "--innodb-buffer-pool-size=2G")
            stack.callback(server.stop)
            server.create_database("bench")
            assert server.process is not None
            roots.append(server.process.pid)
            database_url = server.url("bench")
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            for size, count in counts.items():
                _fill(bulk, count[0], size)
        if database_url is not None:
            for size, count in counts.items():
                _fill_database(database_url, count[1], size)
        spark = new_session(**{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        spark.dataSource.register(_per_row_source())
        spark.dataSource.register(_ready_source())
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        for size, count in counts.items():
            cases = _cases(spark, url, database_url, folder, size, count)
            figures[size] = _measured(cases, rounds, lambda: _trees(roots))
            for name, (rate, ratio, cost) in figures[size].items():
                tell(f"{size:5} B  {name:38} {rate:10,.0f} rows/s   {ratio:.2f}  {cost:6.2f} µs\n")
    return figures


def _trees(roots: list[int]) -> list[int]:
    return list({pid for root in roots for pid in processes.tree(root)})


def _measured(cases: list[Case], rounds: int, pids: Callable[[], list[int]]) -> Medians:
    for case in cases:
        count = case.read().count()
        assert count in (case.rows, 0), f"{case.name}: {count} rows, not {case.rows}"
    found: dict[str, list[Figure]] = {case.name: [] for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            figure = _read(case.read, case.rows, pids)
            if number:  # the first round warms up
                found[case.name].append(figure)
    return {
        case.name: (
            statistics.median(one.rate for one in found[case.name]),
            statistics.median(
                one.rate / base.rate
                for one, base in zip(found[case.name], found[case.base], strict=True)
            ),
            statistics.median(one.cost for one in found[case.name]),
        )
        for case in cases
    }


def main(rows: str = "4000000", rounds: str = "3", file: str | None = None) -> None:
    def tell(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    figures = measure(int(rows), int(rounds), tell)
    if file is not None:
        Path(file).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
