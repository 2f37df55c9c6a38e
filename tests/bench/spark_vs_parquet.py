"""Reading topics and queues in Spark beside reading the same rows from Parquet, in one run.

    .venv/bin/python tests/bench/spark_vs_parquet.py [ROWS] [ROUNDS] [JSON FILE]
        [--size 100] [--case single] [--directory DIR] [--fill-only] [--no-mysql]

Into the noop sink, all columns unless it says otherwise, local[2], one case after the other in each
round. Each case is compared with a Parquet copy of its own rows, by rows per second and by
processor time per row of all processes that take part: on a busy machine the second is what counts.
`files` and `network` are the two ways in which the jar gets the records, `Python` is the Python
source, `three columns` are source, offset and key without the body, `single` are records of one
message each. Topics in MySQL are left out without MariaDB. A DIR that was filled before is used
again, with the same ROWS and sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
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


def _fill_single(bulk: BulkConnection, rows: int, size: int) -> None:
    """As publishers that do not batch: each message is a record."""
    body = _bodies(size)
    bulk.call(Op.TOPIC_DECLARE, name=f"s{size}", queues=1)
    for n in range(rows):
        bulk.call(Op.APPEND, topic=f"s{size}", token="a", batch=[{"key": f"k{n}", "body": body(n)}])


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


def _counts(rows: int, size: int) -> tuple[int, int, int]:
    """Of queues and topics, of topics in MySQL, and of single records, which take long to fill."""
    rows = rows if size <= 100 else rows // 4
    return rows, rows * 3 // 10, rows // 20


def _cases(
    spark: Any,  # noqa: ANN401
    broker_url: str,
    database_url: str | None,
    directory: Path,
    size: int,
    counts: tuple[int, int, int],
    chosen: list[str] | None,
) -> list[Case]:
    def table(kind: str, url: str, way: str = "files", name: str = "", columns: str = "*") -> Any:  # noqa: ANN401
        spark.sparkContext._jvm.java.lang.System.setProperty("headrace.spark.read", way)
        reader = spark.read.format("headrace").option("url", url)
        reader = reader.option("rowsPerTask", ROWS_PER_TASK)
        return (
            reader.option(kind, name or f"{kind[0]}{size}").load().selectExpr(*columns.split(","))
        )

    found: list[Case] = []

    def add(case: str, rows: int, ways: tuple[str, ...], **what: str) -> None:
        if chosen and case not in chosen:
            return
        place = str(directory / f"{case}-{size}".replace(" ", "-"))
        table(**what).write.mode("overwrite").parquet(place)
        base = f"{case}, from Parquet"
        found.append(Case(base, lambda: spark.read.parquet(place), base, rows))
        for way in ways:
            made = f"{case}, {way}"
            found.append(Case(made, lambda way=way: table(**what, way=way), base, rows))

    ways = ("files", "network", "python")
    add("topic", counts[0], ways, kind="topic", url=broker_url)
    add("queue with distinct ids", counts[0], ways, kind="queue", url=broker_url)
    few = {"columns": "source,offset,key"}
    add("topic, three columns", counts[0], ways[:2], kind="topic", url=broker_url, **few)
    single = {"kind": "topic", "name": f"s{size}", "url": broker_url}
    add("single", counts[2], ways[:2], **single)
    if database_url is not None:
        add("topic in MySQL", counts[1], ("python",), kind="topic", url=database_url)
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


Medians = dict[str, tuple[float, float, float, float]]


def measure(given: argparse.Namespace, tell: Callable[[str], object]) -> dict[int, Medians]:
    """By size and case: rows per second, ratio to Parquet, µs of processor time per row, ratio."""
    counts = {size: _counts(given.rows, size) for size in given.size or SIZES}
    figures: dict[int, Medians] = {}
    with ExitStack() as stack:
        folder = given.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        is_filled = (folder / "data").exists()
        folder.mkdir(exist_ok=True)
        broker = brokers.start(folder)
        stack.callback(broker.stop)
        database_url = None
        roots = [os.getpid(), broker.pid or 0]
        if mariadb.find_server() is not None and not given.no_mysql:
            (folder / "db").mkdir()
            # Parquet files are in memory by then, and so may the tables be.
            server = mariadb.prepare(folder / "db", "--innodb-buffer-pool-size=2G")
            stack.callback(server.stop)
            server.create_database("bench")
            assert server.process is not None
            roots.append(server.process.pid)
            database_url = server.url("bench")
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            for size, count in () if is_filled else counts.items():
                _fill(bulk, count[0], size)
                _fill_single(bulk, count[2], size)
        if given.fill_only:
            return {}
        if database_url is not None:
            for size, count in counts.items():
                _fill_database(database_url, count[1], size)
        spark = new_session(**{"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        for size, count in counts.items():
            cases = _cases(spark, url, database_url, folder, size, count, given.case)
            figures[size] = _measured(cases, given.rounds, lambda: _trees(roots))
            for name, (rate, ratio, cost, cheaper) in figures[size].items():
                shown = f"{rate:10,.0f} rows/s {ratio:6.2f}   {cost:6.2f} µs {cheaper:6.2f}"
                tell(f"{size:5} B  {name:38} {shown}\n")
    return figures


def _trees(roots: list[int]) -> list[int]:
    return list({pid for root in roots for pid in processes.tree(root)})


def _measured(cases: list[Case], rounds: int, pids: Callable[[], list[int]]) -> Medians:
    for case in cases:
        count = case.read().count()
        assert count == case.rows, f"{case.name}: {count} rows, not {case.rows}"
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
            statistics.median(
                base.cost / one.cost
                for one, base in zip(found[case.name], found[case.base], strict=True)
            ),
        )
        for case in cases
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=4_000_000)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--size", type=int, action="append")
    parser.add_argument("--case", action="append", help="as in the figures, without the way")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--fill-only", action="store_true")
    parser.add_argument("--no-mysql", action="store_true")
    given = parser.parse_args()

    def tell(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    figures = measure(given, tell)
    if given.file is not None:
        given.file.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
