"""Topics in MySQL beside the plain ways to do the same: ratios measured on one server in one run.

Each case gives two figures from the same minute; what counts is their ratio, and which ratio is
wanted is written beside it.
"""

from __future__ import annotations

import multiprocessing
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from headrace.bench.brokers import HeadraceBroker
from headrace.bench.compare.ratio import RatioResult, rate
from headrace.bench.errors import MeasureError
from headrace.client import ConnectionFactory
from headrace.client.core.requests import ClientRequest, nothing
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.url import parse_url
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing.mariadb import MariaDb
from headrace.wire.native.payloads import Op

DATABASE: Final = "bench"
BODY: Final = bytes(range(256))
CONSUMERS: Final = 4
PRODUCERS: Final = 4
BATCH: Final = 500
_UNDER_WAY: Final = 8
_ROUNDS: Final = 2
_STEPS: Final = 2000
_COUNTED: Final = 500
_numbers = count(1)


def _better(case: str, ours: float, other: float, wanted: float | None, about: str) -> RatioResult:
    bound = "shown" if wanted is None else f">= {wanted:g}"
    return RatioResult(case, ours, other, bound, "messages/s", about)


# -- appending -----------------------------------------------------------------------------------


def batched_append(server: MariaDb, seconds: float) -> RatioResult:
    """Batches of 1,000 by one producer, against one autocommit INSERT per message."""
    with _engine(server) as (engine, topic):
        rows = [Entry(BODY) for _ in range(1000)]
        ours = _rate(seconds, lambda: len(engine.append(topic, rows)))
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            sql = f"INSERT INTO msg_p_{topic}_low (body,token,ref_key) VALUES (%s,%s,%s)"
            other = _rate(seconds, lambda: cursor.execute(sql, (BODY, "p", "key-1")))
    return _better("batched-append", ours, other, 10, "1,000 rows a statement / one row")


def shared_append(server: MariaDb, seconds: float) -> RatioResult:
    """16 threads of one process that append one message each, put together by the engine."""
    with _engine(server) as (engine, topic):
        ours = _together(16, seconds, lambda: len(engine.append(topic, [Entry(BODY)])))
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            sql = f"INSERT INTO msg_p_{topic}_low (body,token,ref_key) VALUES (%s,%s,%s)"
            other = _rate(seconds, lambda: cursor.execute(sql, (BODY, "p", "key-1")))
    return _better("shared-append", ours, other, 1, "16 threads, one row each / one thread")


def log_append(server: MariaDb, seconds: float) -> RatioResult:
    """A broker's log, each call confirmed when on disk, against the MySQL engine by 4 threads."""
    with TemporaryDirectory(prefix="headrace-bench-") as parent:
        broker = HeadraceBroker(Path(parent), sys.executable, pin=False)
        broker.start()
        try:
            ours = _log_rate(broker.native_port, seconds)
        finally:
            broker.stop()
    with _engine(server) as (engine, topic):
        rows = [Entry(BODY) for _ in range(1000)]
        other = _together(PRODUCERS, seconds, lambda: len(engine.append(topic, rows)))
    return _better("log-append", ours, other, 3, "broker's log / MySQL, 1,000 messages a call")


def _log_rate(port: int, seconds: float) -> float:
    """One connection with some calls under way; the messages are packed again for each."""
    batch = [{"priority": "middle", "body": BODY}] * 1000
    fields = {"topic": "bench", "token": "bench", "batch": batch}
    under_way: deque[Future[int]] = deque()
    with ConnectionFactory(port=port).new_connection() as connection:
        state = connection.create_channel().state
        connection.call(state, ClientRequest(Op.TOPIC_DECLARE, {"name": "bench"}, nothing))

        def step() -> int:
            call = ClientRequest(Op.APPEND, dict(fields), lambda reply: len(reply["ids"]))
            under_way.append(connection.submit(state, call))
            return under_way.popleft().result() if len(under_way) > _UNDER_WAY else 0

        reached = _rate(seconds, step)
        for one in under_way:
            one.result()
    return reached


# -- reading as a group --------------------------------------------------------------------------


def group_read(server: MariaDb, seconds: float) -> RatioResult:
    """4 processes that read as a group, against rows claimed one by one with SKIP LOCKED."""
    about = "ranges of 500 / one row at a time, SKIP LOCKED"
    return _group_read(server, seconds, "group-read", 1, 3, about)


def group_read_rows(server: MariaDb, seconds: float) -> RatioResult:
    """The same against the stronger way: 500 rows claimed at a time with SKIP LOCKED."""
    about = "ranges of 500 / 500 rows at a time, SKIP LOCKED"
    return _group_read(server, seconds, "group-read-rows", BATCH, None, about)


def _group_read(
    server: MariaDb,
    seconds: float,
    case: str,
    rows_at_a_time: int,
    wanted: float | None,
    about: str,
) -> RatioResult:
    with _engine(server) as (engine, topic):
        rows = [Entry(BODY) for _ in range(1000)]
        for _ in range(60):
            engine.append(topic, rows)
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE rows_{topic} (id BIGINT PRIMARY KEY, body MEDIUMBLOB NOT NULL, "
                "owner VARCHAR(50) NULL, lease_until_ms BIGINT NOT NULL DEFAULT 0) "
                f"AS SELECT id,body FROM msg_p_{topic}_middle"
            )
            url = server.url(DATABASE)
            other = _crowd(_take_rows, (url, topic, seconds, rows_at_a_time))
            cursor.execute(f"DROP TABLE rows_{topic}")
        ours = _crowd(_take_ranges, (server.url(DATABASE, housekeeping="off"), topic))
    return _better(case, ours, other, wanted, about)


def _crowd(target: Callable[..., None], args: tuple[object, ...]) -> float:
    """What the processes did per second, from the first one's start to the last one's end."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    ready, go = context.Semaphore(0), context.Event()
    running = [
        context.Process(target=target, args=(number, ready, go, results, *args), daemon=True)
        for number in range(CONSUMERS)
    ]
    for one in running:
        one.start()
    for _ in running:
        ready.acquire()
    go.set()
    reports = [_report(results, running) for _ in running]
    for one in running:
        one.join()
    took = max(end for _, _, end in reports) - min(start for _, start, _ in reports)
    return float(sum(done for done, _, _ in reports) / took)


def _report(results: Any, running: list[Any]) -> tuple[int, float, float]:  # noqa: ANN401
    """The next one; at once an error when a process died, whose own words are above."""
    while True:
        try:
            report: tuple[int, float, float] = results.get(timeout=1)
        except queue.Empty:
            if any(one.exitcode for one in running):
                raise MeasureError("a consumer of the measurement died, see above") from None
        else:
            return report


def _take_ranges(number: int, ready: Any, go: Event, results: Any, url: str, topic: str) -> None:  # noqa: ANN401
    engine = MySqlEngine(url)
    reader = ConsumerSpec(f"c{number}", "bench")
    engine.lag(topic, reader)
    ready.release()
    go.wait()
    done, start = 0, time.monotonic()
    taken = engine.read(topic, reader, BATCH)
    while taken.messages:
        done += len(taken.messages)
        taken = engine.commit_and_read(topic, reader, taken.claim, BATCH)
    results.put((done, start, time.monotonic()))
    engine.close()


def _take_rows(
    number: int,
    ready: Any,  # noqa: ANN401 - a semaphore of the context
    go: Event,
    results: Any,  # noqa: ANN401 - a queue of the context
    url: str,
    topic: str,
    seconds: float,
    limit: int,
) -> None:
    session = DbConnection(parse_url(url))
    ready.release()
    go.wait()
    done, start = 0, time.monotonic()
    take = partial(_take_some_rows, session, topic, f"c{number}", limit)
    # Refused by a deadlock, as happens when rows are claimed in crowds: again, as ours are.
    while time.monotonic() < start + seconds and (took := session.repeat(take)):
        done += took
    results.put((done, start, time.monotonic()))
    session.close()


def _take_some_rows(session: DbConnection, topic: str, owner: str, limit: int) -> int:
    """Claim, read and delete rows; how many."""
    with session.transaction():  # claimed for a time, as ours are
        found = session.rows(
            f"SELECT id FROM rows_{topic} WHERE owner IS NULL ORDER BY id LIMIT {limit} "
            "FOR UPDATE SKIP LOCKED"
        )
        if not found:
            return 0
        ids = [row[0] for row in found]
        those = f"id IN ({','.join(['%s'] * len(ids))})"
        session.run(
            f"UPDATE rows_{topic} SET owner=%s, lease_until_ms={NOW}+30000 WHERE {those}",
            [owner, *ids],
        )
    session.rows(f"SELECT id,body FROM rows_{topic} WHERE {those}", ids)
    return session.repeat(
        lambda: session.run(f"DELETE FROM rows_{topic} WHERE owner=%s AND {those}", [owner, *ids])
    )


# -- an old transaction --------------------------------------------------------------------------


def old_transaction(server: MariaDb, seconds: float) -> RatioResult:
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
    return RatioResult("old-transaction", median(beside), median(quiet), "<= 2", "ms", about)


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


CASES: Final[dict[str, Callable[[MariaDb, float], RatioResult]]] = {
    "batched-append": batched_append,
    "shared-append": shared_append,
    "group-read": group_read,
    "group-read-rows": group_read_rows,
    "old-transaction": old_transaction,
    "log-append": log_append,
}
