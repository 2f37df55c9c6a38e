"""Groups that read and commit batches of equal size: ours beside rows claimed with SKIP LOCKED.

Both hand-written forms claim rows with a lease and delete them when they are done. The second
remembers the last id it has claimed, so that it does not search the rows before it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

from headrace.bench.compare.ratio import RatioResult
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.url import parse_url
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing.mariadb import MariaDb

BODY: Final = bytes(range(256))
SIZES: Final = (1, 20, 100, 1000)
_ROUNDS: Final = 3
_ROWS: Final = {1: 20_000, 20: 60_000, 100: 120_000, 1000: 200_000}  # more than a round reads
_TOPIC: Final = "groups"
OURS, ROWS, LAST = "ours", "rows", "last"
# Wanted of 2 members, by size.
_WANTED: Final = {ROWS: (1.0, 1.0, 1.0, 1.0), LAST: (0.4, 0.8, 1.0, 1.0)}
_ABOUT: Final = {ROWS: "SKIP LOCKED", LAST: "SKIP LOCKED behind the last id"}


def group_reads(
    server: MariaDb, seconds: float, *, members: int, database: str
) -> list[RatioResult]:
    """Members of a group read and commit by 1, 20, 100 and 1,000, beside SKIP LOCKED with a lease.

    All sizes in interleaved rounds; the median of the rounds counts.
    """
    url = server.url(database, housekeeping="off")
    engine = MySqlEngine(url)
    engine.create(TopicSpec(_TOPIC))
    rows = [Entry(BODY)] * 1000
    for _ in range(max(_ROWS.values()) // len(rows)):
        engine.append(_TOPIC, rows)
    with server.connect(database) as connection, _crowd(members, url) as crowd:
        sql = connection.cursor()
        sql.execute(
            "CREATE TABLE jobs (id BIGINT PRIMARY KEY, body MEDIUMBLOB NOT NULL, "
            "owner VARCHAR(50) NULL, lease_until_ms BIGINT NOT NULL DEFAULT 0)"
        )
        found: dict[tuple[int, str], list[float]] = {}
        for turn in range(_ROUNDS):
            for size in SIZES:
                for kind in (OURS, ROWS, LAST):
                    if kind != OURS:
                        sql.execute("TRUNCATE jobs")
                        sql.execute(
                            "INSERT INTO jobs (id,body) SELECT id,body FROM "
                            f"msg_p_{_TOPIC}_middle ORDER BY id LIMIT {_ROWS[size]}"
                        )
                    rate = _measure(crowd, kind, size, f"g{turn}-{size}", seconds)
                    found.setdefault((size, kind), []).append(rate)
        sql.execute("DROP TABLE jobs")
    engine.delete(_TOPIC)
    engine.close()
    return [
        _result(members, size, kind, median(found[size, OURS]), median(found[size, kind]))
        for kind in (ROWS, LAST)
        for size in SIZES
    ]


def _result(members: int, size: int, kind: str, ours: float, other: float) -> RatioResult:
    wanted = f">= {_WANTED[kind][SIZES.index(size)]:g}" if members == 2 else "shown"
    about = f"{members} members, read and commit by {size:,} / {_ABOUT[kind]}"
    name = f"group-{members}-by-{size}{'-last' if kind == LAST else ''}"
    return RatioResult(name, ours, other, wanted, "messages/s", about)


@contextmanager
def _crowd(members: int, url: str) -> Iterator[list[Connection]]:
    """Processes that do what they are sent."""
    context = multiprocessing.get_context("spawn")
    pipes, running = [], []
    for number in range(members):
        ours, theirs = context.Pipe()
        process = context.Process(target=_member, args=(number, url, theirs), daemon=True)
        process.start()
        pipes.append(ours)
        running.append(process)
    yield pipes
    for pipe in pipes:
        pipe.send(None)
    for process in running:
        process.join()


def _measure(
    crowd: Sequence[Connection], kind: str, size: int, group: str, seconds: float
) -> float:
    for pipe in crowd:
        pipe.send((kind, size, group, seconds))
    for pipe in crowd:
        pipe.recv()  # ready
    for pipe in crowd:
        pipe.send(True)
    reports = [pipe.recv() for pipe in crowd]
    return float(sum(done for done, _ in reports) / max(took for _, took in reports))


def _member(number: int, url: str, pipe: Connection) -> None:
    engine, session = MySqlEngine(url), DbConnection(parse_url(url))
    while (job := pipe.recv()) is not None:
        kind, size, group, seconds = job
        if kind == OURS:
            step = _our_step(engine, ConsumerSpec(f"c{number}", group), size)
        else:
            step = _row_step(session, f"c{number}", size, remembers=kind == LAST)
        pipe.send(True)
        pipe.recv()
        done, start = 0, time.monotonic()
        while time.monotonic() < start + seconds and (count := step()):
            done += count
        pipe.send((done, time.monotonic() - start))
    engine.close()
    session.close()


def _our_step(engine: MySqlEngine, reader: ConsumerSpec, size: int) -> Callable[[], int]:
    claim: tuple[object, ...] = ()

    def step() -> int:
        nonlocal claim
        if claim:
            found = engine.commit_and_read(_TOPIC, reader, claim, size)
        else:
            found = engine.read(_TOPIC, reader, size)
        claim = found.claim
        return len(found.messages)

    return step


def _row_step(
    session: DbConnection, owner: str, size: int, *, remembers: bool
) -> Callable[[], int]:
    last = 0

    def take() -> int:
        nonlocal last
        behind = f"id>{last} AND " if remembers else ""
        with session.transaction():
            found = session.rows(
                f"SELECT id,body FROM jobs WHERE {behind}lease_until_ms<{NOW} "
                f"ORDER BY id LIMIT {size} FOR UPDATE SKIP LOCKED"
            )
            if not found:
                return 0
            those = f"id IN ({','.join(str(row[0]) for row in found)})"
            session.run(
                f"UPDATE jobs SET owner=%s, lease_until_ms={NOW}+30000 WHERE {those}", (owner,)
            )
        last = found[-1][0]
        delete = partial(session.run, f"DELETE FROM jobs WHERE owner=%s AND {those}")
        return session.repeat(lambda: delete((owner,)))

    # Refused by a deadlock, as happens when rows are claimed in crowds: again, as ours are.
    return lambda: session.repeat(take)
