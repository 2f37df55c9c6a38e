"""Reading the same rows from Headrace and from Apache Kafka in Spark, in one run.

    .venv/bin/python tests/bench/spark_vs_kafka.py [ROWS] [ROUNDS] [JSON FILE] [--size 100]

A Kafka broker and Spark's source for it (spark-sql-kafka-0-10) come from Maven Central; there must
be one for the installed Spark. Into the noop sink, local[2], one case after the other in each
round: all our columns (`files`, `network`), Kafka's without its headers and with them. Key and body
are the same; our message ids are headers of Kafka's records.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyspark
from spark_vs_parquet import Case, Figure, _fill, _read, _trees

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import wait_for
from support import brokers
from support.ports import free_port
from support.spark_lab.sessions import new_session

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={place}/logs
num.partitions=2
offsets.topic.replication.factor=1
"""


def jars_of(packages: str, place: Path) -> Path:
    """A directory with the jars and all that they need; one that has some is taken as it is."""
    if (place / "jars").exists():
        return place / "jars"
    spark = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    # It resolves the packages before it finds that there is no such program.
    subprocess.run(
        [str(spark), "--conf", f"spark.jars.ivy={place}", "--packages", packages, "nothing.py"],
        check=False, capture_output=True,
    )  # fmt: skip
    return place / "jars"


def start_kafka(stack: ExitStack, jars: Path, place: Path) -> tuple[str, int]:
    """Its address and process id."""
    port = free_port()
    settings = place / "server.properties"
    settings.write_text(PROPERTIES.format(port=port, controller=free_port(), place=place))
    scala = next((Path(pyspark.__file__).parent / "jars").glob("scala-library*.jar"))
    java = ["java", "-Xmx1g", "-cp", f"{jars}/*:{scala}"]  # Spark leaves its own Scala out
    format_ = ["kafka.tools.StorageTool", "format", "-t", "7h1sIsAnIdOfACluster00", "-c"]
    subprocess.run([*java, *format_, str(settings)], check=True, capture_output=True)
    log = place / "kafka.log"
    sink = stack.enter_context(log.open("wb"))
    process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=sink, stderr=sink)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    wait_for(lambda: _accepts(port) or process.poll() is not None, timeout=60)
    assert process.poll() is None, log.read_text(errors="replace")[-2000:]
    return f"127.0.0.1:{port}", process.pid


def _accepts(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def measure(given: argparse.Namespace) -> dict[str, tuple[float, float, float, float]]:
    """By case: rows per second, ratio to Kafka, µs of processor time per row, ratio."""
    match = re.match(r"\d+\.\d+\.\d+", pyspark.__version__)
    assert match is not None
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{given.connector or match[0]}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cache = given.jars or folder
        kafka = jars_of(KAFKA, cache / "kafka")
        source = jars_of(connector, cache / "source")
        assert any(source.glob("*kafka-0-10*.jar")), f"Maven Central has no {connector}"
        (folder / "k").mkdir()
        address, kafka_pid = start_kafka(stack, kafka, folder / "k")
        broker = brokers.start(folder)
        stack.callback(broker.stop)
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            _fill(bulk, given.rows, given.size)
        spark = new_session(
            **{"spark.driver.memory": "2g", "spark.jars": ",".join(map(str, source.glob("*.jar")))}
        )
        stack.callback(spark.stop)
        system = spark.sparkContext._jvm.java.lang.System
        ours = spark.read.format("headrace").options(
            url=f"headrace://guest:guest@127.0.0.1:{broker.native_port}/",
            topic=f"t{given.size}", rowsPerTask="250000",
        )  # fmt: skip
        headers = "array(struct('id' AS key, cast(message_id AS binary) AS value)) AS headers"
        writer = ours.load().selectExpr("key", "body AS value", headers).write.format("kafka")
        writer.option("kafka.bootstrap.servers", address).option("topic", "rows").save()

        def theirs(with_headers: str) -> Any:  # noqa: ANN401
            options = {"kafka.bootstrap.servers": address, "subscribe": "rows"}
            options["minPartitions"] = str(max(2, given.rows // 250_000))
            return spark.read.format("kafka").options(includeHeaders=with_headers, **options).load()

        def by(way: str) -> Any:  # noqa: ANN401
            system.setProperty("headrace.spark.read", way)
            return ours.load()

        cases = [
            Case("Kafka", lambda: theirs("false"), "Kafka", given.rows),
            Case("Kafka with headers", lambda: theirs("true"), "Kafka", given.rows),
            Case("files", lambda: by("files"), "Kafka", given.rows),
            Case("network", lambda: by("network"), "Kafka", given.rows),
        ]
        pids = [os.getpid(), broker.pid or 0, kafka_pid]
        return _compared(cases, given.rounds, pids)


def _compared(
    cases: list[Case], rounds: int, pids: list[int]
) -> dict[str, tuple[float, float, float, float]]:
    for case in cases:
        assert case.read().count() == case.rows, case.name
    found: dict[str, list[Figure]] = {case.name: [] for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            figure = _read(case.read, case.rows, lambda: _trees(pids))
            if number:  # the first round warms up
                found[case.name].append(figure)
    base = found["Kafka"]
    return {
        name: (
            statistics.median(one.rate for one in figures),
            statistics.median(a.rate / b.rate for a, b in zip(figures, base, strict=True)),
            statistics.median(one.cost for one in figures),
            statistics.median(b.cost / a.cost for a, b in zip(figures, base, strict=True)),
        )
        for name, figures in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="?", type=int, default=2_000_000)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--connector", help="Version of spark-sql-kafka. [that of Spark]")
    parser.add_argument(
        "--jars", type=Path, help="Where the jars are kept: DIR/{kafka,source}/jars."
    )
    given = parser.parse_args()
    started = time.time()
    figures = measure(given)
    for name, (rate, ratio, cost, cheaper) in figures.items():
        shown = f"{rate:10,.0f} rows/s {ratio:6.2f}   {cost:6.2f} µs {cheaper:6.2f}"
        sys.stdout.write(f"{given.size:5} B  {name:20} {shown}\n")
    sys.stdout.write(f"Spark {pyspark.__version__}, {KAFKA}, {time.time() - started:.0f} s\n")
    if given.file is not None:
        given.file.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
