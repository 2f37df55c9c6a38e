"""Messages while everything is read: what a full read of a large topic costs everybody else.

    .venv/bin/python tests/bench/read_under_load.py [GIGABYTES] [ROUNDS] [SECONDS] [JSON FILE]

The broker has one core; the generator of `headrace bench` and the reader share another. Measured,
without and with the reader, in turns: auto-ack messages per second, and latencies at 2,000 messages
per second. RssAnon of the broker and its fetch process together is looked at all the time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.bench import processes
from headrace.bench.cases import CASES
from headrace.bench.load.measures import measure_flow, measure_latency
from headrace.bench.target import AmqpAddress, Timing
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.wire.native.payloads import Op
from support import brokers

BODY = 1000
PORTION = 4000
TOPIC = "history"
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Figures:
    """Medians of the rounds; ``reads`` is how often the topic was read from end to end."""

    rate_alone: float
    rate_beside: float
    p99_alone_ms: float
    p99_beside_ms: float
    anonymous_mb: float
    reads: float
    read_mb_per_second: float

    @property
    def share(self) -> float:
        return self.rate_beside / self.rate_alone


@dataclass
class Standing:
    """The broker as the measures of `headrace bench` want it."""

    address: AmqpAddress
    pid: int
    generator_cores: frozenset[int]
    name: str = "Headrace"
    restartable: bool = False
    peak_mb: float = field(default=0.0)

    @property
    def pids(self) -> list[int]:
        return processes.tree(self.pid)

    def start(self) -> float:
        return 0.0

    def stop(self) -> None:
        pass


def _fill(port: int, gigabytes: float) -> int:
    rows = int(gigabytes * 1e9 / BODY)
    noise = os.urandom(1 << 20)
    with BulkConnection(Settings(port=port)) as bulk:
        bulk.call(Op.TOPIC_DECLARE, name=TOPIC, queues=2)
        for start in range(0, rows, PORTION):
            numbers = range(start, min(start + PORTION, rows))
            places = [n * 7919 % (len(noise) - BODY) for n in numbers]
            batch = [{"key": f"k{at}", "body": noise[at : at + BODY]} for at in places]
            bulk.call(Op.APPEND, topic=TOPIC, token="appid-1", batch=batch)
    return rows


def _read_for_ever(port: int, cores: frozenset[int], count: Synchronized[float]) -> None:
    """As a task of Spark does it: all columns, taken as they come."""
    os.sched_setaffinity(0, cores)
    with BulkConnection(Settings(port=port, request_timeout=120.0)) as bulk:
        while True:
            for partition, there in bulk.sources([{"topic": TOPIC}])[0].ranges.items():
                for piece in bulk.fetch(there.first, there.end, topic=TOPIC, partition=partition):
                    count.value += len(piece)


@contextmanager
def _reader(port: int, cores: frozenset[int], total: Synchronized[float]) -> Iterator[None]:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_read_for_ever, args=(port, cores, total), daemon=True)
    process.start()
    before = total.value
    try:
        while total.value == before:  # the fetch process starts with the first request
            time.sleep(LOOK_SECONDS)
        yield
        if not process.is_alive():
            raise RuntimeError("the reader ended before the measure did")
    finally:
        process.kill()
        process.join()


@contextmanager
def _watched(target: Standing) -> Iterator[None]:
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            target.peak_mb = max(target.peak_mb, processes.memory(target.pids).anonymous)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def measure(
    gigabytes: float, rounds: int, seconds: float, tell: Callable[[str], object]
) -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise RuntimeError("this needs two cores")
    other = frozenset({cores[-1]})
    total: Synchronized[float] = multiprocessing.get_context("fork").Value("d", 0.0)
    with tempfile.TemporaryDirectory() as folder:
        os.sched_setaffinity(0, {cores[0]})
        broker = brokers.start(Path(folder))
        os.sched_setaffinity(0, cores)
        try:
            rows = _fill(broker.native_port, gigabytes)
            tell(f"{rows:,} messages of {BODY} bytes are in the topic\n")
            target = Standing(AmqpAddress("127.0.0.1", broker.amqp_port), broker.pid or 0, other)
            timing = Timing(seconds=seconds)
            found: dict[str, list[float]] = {}
            busy = 0.0
            with _watched(target):
                for number in range(rounds):
                    for case, name in (("auto-ack", "rate"), ("latency", "p99")):
                        for beside in (False, True):
                            if beside:
                                began = time.monotonic()
                                with _reader(broker.native_port, other, total):
                                    value = _value(target, case, timing)
                                busy += time.monotonic() - began
                            else:
                                value = _value(target, case, timing)
                            key = f"{name} {'beside' if beside else 'alone'}"
                            found.setdefault(key, []).append(value)
                            tell(f"round {number + 1}  {key:12} {value:12,.2f}\n")
        finally:
            broker.stop()
    middle = {name: statistics.median(values) for name, values in found.items()}
    return Figures(
        middle["rate alone"], middle["rate beside"], middle["p99 alone"], middle["p99 beside"],
        target.peak_mb, total.value / (gigabytes * 1e9), total.value / 1e6 / busy,
    )  # fmt: skip


def _value(target: Standing, case: str, timing: Timing) -> float:
    if case == "latency":
        return measure_latency(target, CASES[case], timing).details["p99_ms"]
    return measure_flow(target, CASES[case], timing).value


def main(
    gigabytes: str = "2", rounds: str = "3", seconds: str = "6", file: str | None = None
) -> None:
    def tell(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    found = measure(float(gigabytes), int(rounds), float(seconds), tell)
    tell(f"auto-ack: {found.rate_alone:,.0f}/s alone, {found.rate_beside:,.0f}/s beside a full read"
         f" ({found.share:.0%})\n")  # fmt: skip
    tell(
        f"p99 at 2,000/s: {found.p99_alone_ms:.2f} ms alone, {found.p99_beside_ms:.2f} ms beside\n"
    )
    tell(f"RssAnon of broker and fetch process: {found.anonymous_mb:.0f} MB at most\n")
    tell(f"read {found.reads:.1f} times, {found.read_mb_per_second:,.0f} MB/s\n")
    if file is not None:
        Path(file).write_text(json.dumps({**asdict(found), "share": found.share}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
