"""A topic in MySQL with rolled back inserts: batch, stream and command read what was committed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import topics
from support.mariadb import MariaDb, prepared
from support.spark_lab.commands import ended, started

INSERTS, ROLLED_BACK, ROUNDS = 1000, 200, 4
PIPELINE = """
name = "copy"
url = "{url}"
[sources.jobs]
topic = "jobs"
[sinks.table]
type = "delta"
path = "{path}"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MariaDb]:
    server = prepared(tmp_path)
    server.create_database("gaps")
    with topics.open(server.url("gaps")) as store:
        store.create("jobs")
    yield server
    server.stop()


def insert(server: MariaDb, numbers: range, gone: set[int]) -> None:
    """As any other program does, four transactions at a time."""
    for at in range(numbers.start, numbers.stop, 4):
        open_ones = [(n, server.connect("gaps")) for n in range(at, min(at + 4, numbers.stop))]
        for n, connection in open_ones:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO msg_p_jobs_low (body,token) VALUES (%s,'p')", (b"%d" % n,))
        for n, connection in reversed(open_ones):
            connection.cursor().execute("ROLLBACK" if n in gone else "COMMIT")
            connection.close()


def bodies(rows: Any) -> list[int]:  # noqa: ANN401 - pyspark's own
    return sorted(int(row["body"]) for row in rows)


@pytest.mark.spark
def test_every_read_has_exactly_what_was_committed(
    spark: Any,  # noqa: ANN401
    server: MariaDb,
    tmp_path: Path,
) -> None:
    from deltalake import DeltaTable

    url = server.url("gaps")
    gone = set(random.Random(17).sample(range(INSERTS), ROLLED_BACK))
    file, table = tmp_path / "copy.toml", tmp_path / "table"
    file.write_text(PIPELINE.format(url=url, path=table))
    for turn in range(1, ROUNDS + 1):
        end = INSERTS * turn // ROUNDS
        insert(server, range(INSERTS * (turn - 1) // ROUNDS, end), gone)
        kept = [n for n in range(end) if n not in gone]
        with started("pipeline", "run", str(file), "--once", state=tmp_path) as process:
            code, _, err = ended(process)
        assert code == 0, err
        assert bodies(DeltaTable(str(table)).to_pyarrow_table().to_pylist()) == kept
        read = spark.read.format("headrace").option("url", url).option("topic", "jobs").load()
        assert bodies(read.collect()) == kept
        rows = spark.readStream.format("headrace").option("url", url).option("topic", "jobs").load()
        query = (
            rows.select("body").writeStream.format("parquet")
            .option("path", str(tmp_path / "stream"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        stream = spark.read.schema("body BINARY").parquet(str(tmp_path / "stream"))
        assert bodies(stream.collect()) == kept


class Inserts(threading.Thread):
    """One transaction after the other, two open at a time, the second ended first."""

    def __init__(self, server: MariaDb, gone: set[int]) -> None:
        super().__init__()
        self._server, self._gone = server, gone
        self.ending: list[int] = []
        self.committed: list[int] = []

    def run(self) -> None:
        with self._server.connect("gaps") as first, self._server.connect("gaps") as second:
            for n in range(0, INSERTS, 2):
                for connection, number in ((first, n), (second, n + 1)):
                    cursor = connection.cursor()
                    cursor.execute("BEGIN")
                    cursor.execute(
                        "INSERT INTO msg_p_jobs_low (body,token) VALUES (%s,'p')", (b"%d" % number,)
                    )
                for connection, number in ((second, n + 1), (first, n)):
                    time.sleep(0.03)
                    if number in self._gone:
                        connection.cursor().execute("ROLLBACK")
                    else:
                        self.ending.append(number)
                        connection.cursor().execute("COMMIT")
                        self.committed.append(number)


@pytest.mark.spark
def test_a_read_beside_inserts_has_what_was_committed_when_it_began(
    spark: Any,  # noqa: ANN401
    server: MariaDb,
    tmp_path: Path,
) -> None:
    from deltalake import DeltaTable

    url = server.url("gaps")
    file, table = tmp_path / "copy.toml", tmp_path / "table"
    file.write_text(PIPELINE.format(url=url, path=table))
    inserts = Inserts(server, set(random.Random(18).sample(range(INSERTS), ROLLED_BACK)))

    def by_batch() -> list[int]:
        read = spark.read.format("headrace").option("url", url).option("topic", "jobs").load()
        return bodies(read.collect())

    def by_command() -> list[int]:
        with started("pipeline", "run", str(file), "--once", state=tmp_path) as process:
            code, _, err = ended(process)
        assert code == 0, err
        return bodies(DeltaTable(str(table)).to_pyarrow_table().to_pylist())

    inserts.start()
    reads = []
    while inserts.is_alive():
        for read in (by_batch, by_batch, by_command):
            least = set(inserts.committed)
            found = read()
            most = set(inserts.ending)
            assert len(found) == len(set(found))
            assert least <= set(found) <= most
            reads.append(len(found))
    assert len(reads) > 2
    assert by_batch() == by_command() == sorted(inserts.committed)
