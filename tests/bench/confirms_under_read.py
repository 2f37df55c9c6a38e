"""Publishers' confirms while Spark reads much data over the network from a cold cache.

    .venv/bin/python tests/bench/confirms_under_read.py [GIGABYTES] [SECONDS] [JSON FILE]
        [--directory DIR] [--fill-only]

A publisher sends 200 persistent messages a second and waits for each confirm, alone and then beside
the read. The broker, its fetch process and the publisher have one core, and Spark, which would run
elsewhere, has the other: threads of the system that sync the disk have none for themselves. The
page cache is dropped before the read (as root). Memory of Spark's Java and RssAnon of the broker
and its fetch process are looked at all the time. A DIR that was filled before is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from read_under_load import TOPIC, _fill

from headrace.bench import processes
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.wire.native.payloads import Op
from support import brokers
from support.spark_lab.sessions import SRC, STARTUP, TESTS

RATE = 200
READER = """
import sys, time
from support.spark_lab.sessions import new_session
spark = new_session("local[2]", **{"spark.driver.memory": "1g"})
spark.sparkContext._jvm.java.lang.System.setProperty("headrace.spark.read", "network")
rows = spark.read.format("headrace").options(url=sys.argv[1], topic=sys.argv[2]).load()
rows.limit(1).collect()
print("ready", flush=True)
sys.stdin.readline()
started = time.monotonic()
rows.write.format("noop").mode("overwrite").save()
print(time.monotonic() - started, flush=True)
sys.stdin.readline()
"""


def confirms(port: int, seconds: float, is_over: threading.Event | None = None) -> list[float]:
    """Milliseconds from publishing to the confirm, in order of their size."""
    found = []
    body = bytes(1000)
    with BulkConnection(Settings(port=port)) as bulk:
        bulk.call(Op.QUEUE_DECLARE, name="confirms", durable=True)
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < seconds and not (is_over and is_over.is_set()):
            time.sleep(max(0.0, len(found) / RATE - now))
            at = time.perf_counter()
            message = {"exchange": "", "key": "confirms", "body": body,
                       "properties": {"delivery_mode": 2}}  # fmt: skip
            bulk.call(Op.PUBLISH, batch=[message])
            found.append((time.perf_counter() - at) * 1000)
        bulk.call(Op.PURGE, queue="confirms")
    return sorted(found)


def percentile(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def measure(given: argparse.Namespace, folder: Path) -> dict[str, float]:
    cores = sorted(os.sched_getaffinity(0))
    is_filled = (folder / "data").exists()
    folder.mkdir(exist_ok=True)
    os.sched_setaffinity(0, {cores[0]})
    broker = brokers.start(folder)
    try:
        if not is_filled:
            _fill(broker.native_port, given.gigabytes)
        return {} if given.fill_only else _measured(given, broker, cores[-1])
    finally:
        broker.stop()


def _measured(given: argparse.Namespace, broker: brokers.Broker, core: int) -> dict[str, float]:
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, url, TOPIC], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        env=os.environ | {"PYTHONPATH": f"{SRC}:{STARTUP}:{TESTS}"},
    )  # fmt: skip
    assert reader.stdin is not None
    assert reader.stdout is not None
    try:
        assert reader.stdout.readline() == "ready\n"
        alone = confirms(broker.native_port, given.seconds)
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1")
        over, java, own = threading.Event(), [0.0], [0.0]
        seconds: list[float] = []

        def look() -> None:
            while not over.wait(0.05):
                with suppress(psutil.Error):
                    java[0] = max(java[0], processes.memory(processes.tree(reader.pid)).resident)
                    own[0] = max(
                        own[0], processes.memory(processes.tree(broker.pid or 0)).anonymous
                    )

        def read() -> None:
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdin.write("\n")
            reader.stdin.flush()
            seconds.append(float(reader.stdout.readline()))
            over.set()

        threads = [threading.Thread(target=one) for one in (look, read)]
        for one in threads:
            one.start()
        beside = confirms(broker.native_port, 3600, over)
        for one in threads:
            one.join()
    finally:
        reader.kill()
        for pid in processes.tree(reader.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
    return {
        "p50_alone_ms": statistics.median(alone), "p99_alone_ms": percentile(alone, 99),
        "p50_beside_ms": statistics.median(beside), "p99_beside_ms": percentile(beside, 99),
        "read_seconds": seconds[0], "java_mb": java[0], "broker_mb": own[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("gigabytes", nargs="?", type=float, default=10)
    parser.add_argument("seconds", nargs="?", type=float, default=30)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--fill-only", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given, given.directory or Path(folder))
    for name, value in found.items():
        sys.stdout.write(f"{name:16} {value:10.2f}\n")
    if given.file is not None:
        given.file.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
