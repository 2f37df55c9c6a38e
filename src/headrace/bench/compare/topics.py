"""Topics in MySQL beside the plain ways to do the same: ratios measured on one server in one run.

Each case gives two figures from the same minute; what counts is their ratio, and which ratio is
wanted is written beside it.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from headrace.bench.brokers import HeadraceBroker
from headrace.bench.compare.group_reads import group_reads
from headrace.bench.compare.ratio import RatioResult, appending, rate
from headrace.client import ConnectionFactory
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing.mariadb import MariaDb
from headrace.topics.remote_engine import RemoteEngine
from headrace.topics.store import open_store

DATABASE: Final = "bench"
BODY: Final = bytes(range(256))
PRODUCERS: Final = 4
BATCH: Final = 500
_UNDER_WAY: Final = 8
_ROUNDS: Final = 2
_STEPS: Final = 2000
_COUNTED: Final = 500
_numbers = count(1)


def _better(case: str, ours: float, other: float, wanted: float, about: str) -> list[RatioResult]:
    return [RatioResult(case, ours, other, f">= {wanted:g}", "messages/s", about)]


# -- appending -----------------------------------------------------------------------------------


def batched_append(server: MariaDb, seconds: float) -> list[RatioResult]:
    """Batches of 1,000 by one producer, against one autocommit INSERT per message."""
    with _engine(server) as (engine, topic):
        rows = [Entry(BODY) for _ in range(1000)]
        ours = _rate(seconds, lambda: len(engine.append(topic, rows)))
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            sql = f"INSERT INTO msg_p_{topic}_low (body,token,ref_key) VALUES (%s,%s,%s)"
            other = _rate(seconds, lambda: cursor.execute(sql, (BODY, "p", "key-1")))
    return _better("batched-append", ours, other, 10, "1,000 rows a statement / one row")


def equal_append(server: MariaDb, seconds: float) -> list[RatioResult]:
    """The same number of rows per call as a hand-written INSERT has, in interleaved rounds."""
    results: list[RatioResult] = []
    with _engine(server) as (engine, topic), server.connect(DATABASE) as connection:
        cursor = connection.cursor()
        table = f"INSERT INTO msg_p_{topic}_low (body,token,ref_key) VALUES "
        for size in (1, 100, 1000):
            rows = [Entry(BODY, token="p", key="key-1")] * size
            sql, values = table + ",".join(["(%s,%s,%s)"] * size), [BODY, "p", "key-1"] * size
            ours, other = [], []
            for _ in range(3):
                ours.append(_rate(seconds, lambda rows=rows: len(engine.append(topic, rows))))  # type: ignore[misc]
                other.append(_rate(seconds, lambda one=(sql, values): cursor.execute(*one)))  # type: ignore[misc]
            about = f"append by {size:,} / hand-written INSERT"
            results += _better(f"append-{size}", median(ours), median(other), 0.75, about)
    return results


def wake_up(server: MariaDb, seconds: float) -> list[RatioResult]:
    """From the append to the read in another process, at 200 messages a second."""
    with _engine(server) as (engine, topic):
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        url = server.url(DATABASE, housekeeping="off")
        count = int(max(seconds, 2.0) * 200)
        reader = context.Process(target=_follow, args=(url, topic, count, theirs), daemon=True)
        reader.start()
        ours.recv()
        start = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, start + number / 200 - time.monotonic()))
            engine.append(topic, [Entry(b"%d" % time.monotonic_ns())])
        times = sorted(ours.recv())
        reader.join()
    found = {"p50": (times[count // 2], 5.0), "p99": (times[count * 99 // 100], 30.0)}
    about = "ms from append to read in another process, 200/s / the goal"
    return [
        RatioResult(f"wake-up-{name}", took, goal, "<= 1", "ms", about)
        for name, (took, goal) in found.items()
    ]


def _follow(url: str, topic: str, count: int, pipe: Any) -> None:  # noqa: ANN401 - a pipe
    """Read as a member of a group until there were ``count`` messages; how long each took."""
    times: list[float] = []
    with open_store(url) as store:
        consumer = store.consumer(topic, token="c", group="wake-up")
        consumer.read(1)
        pipe.send(True)
        for batch in consumer.batches(10):
            now = time.monotonic_ns()
            times += [(now - int(one.body)) / 1e6 for one in batch]
            if len(times) >= count:
                break
    pipe.send(times)


def shared_append(server: MariaDb, seconds: float) -> list[RatioResult]:
    """16 threads of one process that append one message each, put together by the engine."""
    with _engine(server) as (engine, topic):
        ours = _together(16, seconds, lambda: len(engine.append(topic, [Entry(BODY)])))
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            sql = f"INSERT INTO msg_p_{topic}_low (body,token,ref_key) VALUES (%s,%s,%s)"
            other = _rate(seconds, lambda: cursor.execute(sql, (BODY, "p", "key-1")))
    return _better("shared-append", ours, other, 1, "16 threads, one row each / one thread")


def log_append(server: MariaDb, seconds: float) -> list[RatioResult]:
    """A broker's log, each call confirmed when on disk, against the MySQL engine by 4 threads."""
    with (
        TemporaryDirectory(prefix="headrace-bench-") as parent,
        HeadraceBroker(Path(parent), sys.executable, pin=False) as broker,
        ConnectionFactory(port=broker.native_port).new_connection() as connection,
    ):
        RemoteEngine(connection).create(TopicSpec("bench"))
        batch: list[dict[str, object]] = [{"priority": "middle", "body": BODY}] * 1000
        ours = _rate(seconds, appending(connection, "bench", batch, _UNDER_WAY))
    with _engine(server) as (engine, topic):
        rows = [Entry(BODY) for _ in range(1000)]
        other = _together(PRODUCERS, seconds, lambda: len(engine.append(topic, rows)))
    return _better("log-append", ours, other, 3, "broker's log / MySQL, 1,000 messages a call")


# -- an old transaction --------------------------------------------------------------------------


def old_transaction(server: MariaDb, seconds: float) -> list[RatioResult]:
    """p99 of a read and commit while an old transaction is open on the server, against without.

    What slows down is what leaves deleted rows behind, and only after a while: so the number of
    steps is fixed, and only the last ones count.
    """
    quiet, beside = [], []
    for _ in range(_ROUNDS):  # in turn, so that what else happens on the machine hits both
        quiet.append(_p99(server))
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT COUNT(*) FROM msg_topic")
            beside.append(_p99(server))
            cursor.execute("ROLLBACK")
    about = "p99 of read + commit after 1,500 of them, with / without an old open transaction"
    return [RatioResult("old-transaction", median(beside), median(quiet), "<= 2", "ms", about)]


def _p99(server: MariaDb) -> float:
    with _engine(server) as (engine, topic):
        reader = ConsumerSpec("c", "bench")
        engine.append(topic, [Entry(BODY) for _ in range(_STEPS + 1)])
        times: list[float] = []
        taken = engine.read(topic, reader, 1)
        while taken.messages:
            start = time.perf_counter()
            taken = engine.commit_and_read(topic, reader, taken.claim, 1)
            times.append(time.perf_counter() - start)
        last = sorted(times[-_COUNTED:])
        return 1000 * last[int(len(last) * 0.99)]


# -- how -----------------------------------------------------------------------------------------


@contextmanager
def _engine(server: MariaDb) -> Iterator[tuple[MySqlEngine, str]]:
    engine = MySqlEngine(server.url(DATABASE, housekeeping="off"))
    name = f"b{next(_numbers)}"
    try:
        engine.create(TopicSpec(name))
        yield engine, name
        engine.delete(name)
    finally:
        engine.close()


def _rate(seconds: float, step: Callable[[], int]) -> float:
    return rate(seconds, step, warm_up=3)


def _together(threads: int, seconds: float, step: Callable[[], int]) -> float:
    rates: list[float] = []
    running = [
        threading.Thread(target=lambda: rates.append(_rate(seconds, step))) for _ in range(threads)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    return sum(rates)


CASES: Final[dict[str, Callable[[MariaDb, float], list[RatioResult]]]] = {
    "batched-append": batched_append,
    "shared-append": shared_append,
    "equal-append": equal_append,
    "group-read-2": partial(group_reads, members=2, database=DATABASE),
    "group-read-8": partial(group_reads, members=8, database=DATABASE),
    "group-read-16": partial(group_reads, members=16, database=DATABASE),
    "wake-up": wake_up,
    "old-transaction": old_transaction,
    "log-append": log_append,
}
