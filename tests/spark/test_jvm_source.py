"""What the jar does with a query: counts, limits, ranges, lag, waiting; and odd options."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
import trustme

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op
from support.spark_lab import sessions

FORMS = ["headrace", "headrace-python"]


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for start in range(0, 100, 10):
                numbers = range(start, start + 10)
                rows = [{"exchange": "", "key": "q", "body": b"%d" % n,
                         "properties": {"delivery_mode": 2}} for n in numbers]  # fmt: skip
                bulk.call(Op.PUBLISH, batch=rows)
                lanes = ("low", "middle", "high")
                batch = [{"priority": lanes[n % 3], "body": b"%d" % n} for n in numbers]
                bulk.call(Op.APPEND, topic="t", batch=batch)
            for _ in range(7):
                message = bulk.call(Op.GET, queue="q", auto_ack=False)["message"]
                bulk.call(Op.ACK, tag=message["tag"])
        yield broker


def table(spark: Any, broker: RunningBroker, form: str = "headrace", **options: str) -> Any:  # noqa: ANN401
    return spark.read.format(form).options(url=broker.native_url, **options).load()


def plan_of(rows: Any) -> str:  # noqa: ANN401
    return str(rows._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("what", [{"queue": "q"}, {"topic": "t"}])
def test_counts_come_from_the_index(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    what: dict[str, str],
) -> None:
    rows = table(spark, broker, **what)
    plain = table(spark, broker, "headrace-python", **what)
    asked = ["count(*)", "count(body)", "min(offset)", "max(offset)"]
    found = rows.selectExpr(*asked)
    assert "LocalTableScan" in plan_of(found)
    assert found.collect() == plain.selectExpr(*asked).collect()
    narrow = "offset >= 5 AND offset < 20 AND partition IN (0, 2)"
    found = rows.where(narrow).selectExpr(*asked)
    assert "LocalTableScan" in plan_of(found)
    assert found.collect() == plain.where(narrow).selectExpr(*asked).collect()
    none = rows.where("offset > 1000").selectExpr(*asked)
    assert [tuple(row) for row in none.collect()] == [(0, 0, None, None)]
    for other in ("count(key)", "max(timestamp)", "count(DISTINCT offset)"):
        assert "LocalTableScan" not in plan_of(rows.selectExpr(other))
        assert rows.selectExpr(other).collect() == plain.selectExpr(other).collect()
    assert "LocalTableScan" not in plan_of(
        table(spark, broker, topic="t", tags="x").selectExpr("count(*)")
    )


def test_queries_read_only_what_they_need(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    rows = table(spark, broker, queue="q", rowsPerTask="10")
    few = rows.where("offset >= 42 AND offset < 45").select("offset", "body")
    assert few.rdd.getNumPartitions() == 1
    assert [row.offset for row in few.orderBy("offset").collect()] == [42, 43, 44]
    assert " Filter " not in plan_of(few)
    assert len(rows.limit(3).collect()) == 3
    late = rows.where("timestamp >= '2100-01-01'")
    assert late.count() == 0
    early = rows.where("timestamp >= '1960-01-01' AND timestamp < '2100-01-01'")
    assert early.count() == rows.count()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "0"},
        {"startingTimestamp": "1969-12-31T23:00:00"},
        {"startingTimestamp": "1960-01-01"},
        {"rowsPerTask": str(2**63 - 1)},
        {"rowsPerTask": str(2**70)},
        {"endingTimestamp": "2100-01-01T00:00:00+02:00"},
    ],
    ids=str,
)
def test_limits_at_the_end_of_their_range(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    form: str,
    options: dict[str, str],
) -> None:
    rows = table(spark, broker, form, topic="t", **options)
    assert sorted(int(row.body) for row in rows.select("body").collect()) == list(range(100))


def test_a_time_before_everything_ends_a_read_at_once(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    for form in FORMS:
        rows = table(spark, broker, form, topic="t", endingTimestamp="0")
        assert rows.select("body").collect() == []


def test_segments_without_a_name_are_read_over_the_network(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """As when they are deleted between the plan and the read: they are located again first."""
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            bulk.call(Op.APPEND, topic="t", batch=[{"body": b"%d" % n} for n in range(50)])
            uuid = bulk.sources([{"topic": "t"}])[0].uuid
            found = bulk.call(Op.LOCATE, topic="t", uuid=uuid, start=0, end=50, seeds=True)
        for path, _, _ in found["files"]:
            os.unlink(path)
        rows = table(spark, broker, topic="t").select("body").collect()
        assert sorted(int(row.body) for row in rows) == list(range(50))


def test_a_stream_reports_its_lag(spark: Any, broker: RunningBroker, tmp_path: Path) -> None:  # noqa: ANN401
    stream = spark.readStream.format("headrace").options(
        url=broker.native_url, topic="t", maxRowsPerTrigger=str(30)
    )
    query = (
        stream.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    assert [one["numInputRows"] for one in progress] == [30, 30, 30, 10]
    assert [int(one["sources"][0]["metrics"]["lag"]) for one in progress] == [70, 40, 10, 0]
    assert progress[0]["sources"][0]["description"] == "headrace topic t"


class HangsUp:
    """A way to the broker that breaks whenever messages are asked for."""

    def __init__(self, port: int) -> None:
        self.count = 0
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._requests, args=(near, far), daemon=True).start()
            threading.Thread(target=self._answers, args=(far, near), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, near.makefile("rb") as file:
            while len(head := file.read(8)) == 8:
                kind, length = unpack(">ii", head)
                if kind in (Op.FETCH, Op.LOCATE, Op.RECORDS):
                    self.count += 1
                    far.shutdown(socket.SHUT_RDWR)
                    return
                far.sendall(head + file.read(length))

    def _answers(self, far: socket.socket, near: socket.socket) -> None:
        try:
            while data := far.recv(65536):
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("form", FORMS)
def test_streams_wait_between_attempts(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
    form: str,
) -> None:
    way = HangsUp(broker.native_port)
    url = f"headrace://guest:guest@127.0.0.1:{way.port}/"
    stream = spark.readStream.format(form).options(url=url, topic="t", endingOffsets="latest")
    query = (
        stream.load().writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path)).start()
    )  # fmt: skip
    try:
        wait_for(lambda: way.count >= 2, timeout=60)
        before = way.count
        query.awaitTermination(3)
        # Two tasks at once, one attempt each half second: without a pause there are hundreds.
        assert way.count - before <= 2 * 2 * 4
    finally:
        way.close()
        query.stop()


@pytest.mark.spark
@pytest.mark.parametrize("in_session", [False, True])
def test_a_program_needs_no_pyspark_python(
    broker: RunningBroker, tmp_path: Path, in_session: bool
) -> None:
    """Spark starts `python3` of the PATH, which knows nothing of headrace: the jar needs none."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    program = tmp_path / "job.py"
    program.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        + ("import headrace.spark\nheadrace.spark.use(spark)\n" if in_session else "")
        + f"rows = spark.read.format('headrace').options(url='{broker.native_url}', queue='q')\n"
        "print(rows.load().selectExpr('sum(cast(string(body) as int))').collect()[0][0])\n"
    )
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH")
    env = {name: one for name, one in os.environ.items() if name not in hidden}
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.stdout.split()[-1:] == [str(sum(range(7, 100)))], done.stderr[-2000:]


def test_records_come_over_tls(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    store = str(tmp_path / "trusted.p12")
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"),
         "-keystore", store, "-storepass", "secret", "-storetype", "PKCS12"],
        check=True, capture_output=True,
    )  # fmt: skip
    system = spark.sparkContext._jvm.java.lang.System
    system.setProperty("javax.net.ssl.trustStore", store)
    system.setProperty("javax.net.ssl.trustStorePassword", "secret")
    settings = {"tls_cert": str(tmp_path / "cert.pem"), "tls_key": str(tmp_path / "key.pem")}
    with run_broker(native_tls_port=0, **settings) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            bulk.call(Op.APPEND, topic="t", batch=[{"body": bytes(n)} for n in range(5000)])
        url = f"headraces://guest:guest@127.0.0.1:{broker.ports['native_tls']}/"
        with sessions.reading_by(spark, "network"):
            rows = spark.read.format("headrace").options(url=url, topic="t").load()
            sizes = sorted(len(row.body) for row in rows.select("body").collect())
        assert sizes == list(range(5000))
