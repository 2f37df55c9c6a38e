"""A load on MySQL topics with crashes, and the accounts of it.

Producers and consumers are processes of their own (`python mysql_load.py produce|consume ...`);
each keeps a ledger: one JSON line per thing it knows. A consumer writes down what it acknowledged
after the commit was confirmed, and apart from that what was committed with an unknown outcome. What
became of those only the database knows, see mysql_audit.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

import headrace
from headrace import topics
from headrace.errors import ClaimLost, EngineUnavailable
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.store.sql.url import parse_url
from headrace.testing import wait_for
from support import mysql_audit
from support.mariadb import MariaDb
from support.process_state import is_stopped

PRIORITIES = tuple(priority.label for priority in BY_URGENCY)
TOPIC = "load"
GROUP = "g"
LEASE_S = 1.5
# Where producers are faster than consumers, nothing of a lower priority comes in its turn, and so
# nobody takes over what a lost member had of it.
MIN_SHARE = 10
ACCIDENT_AT = 20  # batches
ACCIDENTS = {"dies": signal.SIGKILL, "pauses": signal.SIGSTOP}
_ERRORS = (EngineUnavailable, pymysql.MySQLError)


# -- the processes -------------------------------------------------------------------------------


def produce(url: str, ledger: Path, name: str, seconds: float, killed: Path) -> None:
    """Appends through the library; beside that, transactions of the old kind that roll back.

    Goes on until the time is over and ``killed`` is there: the accidents happen under load also
    where processes start slowly.
    """
    chance = random.Random(name)
    store = _opened(url)
    producer = store.producer(TOPIC, token=name)
    other = Rollbacks(url)
    number = 0
    deadline = time.monotonic() + seconds
    with ledger.open("w") as told:
        while time.monotonic() < deadline or not killed.exists():
            priority = chance.choice(PRIORITIES)
            if chance.random() < 0.05:
                other.insert(priority, chance)
                continue
            count = chance.randint(1, 40)
            bodies = [f"{name}.{number + step}" for step in range(count)]
            number += count
            try:
                producer.append_many([topics.NewMessage(one, priority) for one in bodies])
            except EngineUnavailable:
                _tell(told, unknown=bodies)
                time.sleep(0.02)
            else:
                _tell(told, stored=bodies)
    other.close()
    store.close()


class Rollbacks:
    """A producer that takes ids and never uses them, sometimes slowly."""

    def __init__(self, url: str) -> None:
        self._settings = parse_url(url)
        self._raw: pymysql.connections.Connection | None = None

    def insert(self, priority: str, chance: random.Random) -> None:
        with suppress(pymysql.MySQLError):  # the server may be down, or the id fenced
            if self._raw is None or not self._raw.open:
                its = self._settings
                [(host, port)] = its.hosts
                self._raw = pymysql.connect(
                    host=host, port=port, user=its.user, password=its.password,
                    database=its.database, connect_timeout=2,
                )  # fmt: skip
            with self._raw.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO msg_p_{TOPIC}_{priority} (body,token) VALUES (%s,'old')",
                    [("never",)] * chance.randint(1, 5),
                )
                time.sleep(chance.random() * 0.05)
            self._raw.rollback()

    def close(self) -> None:
        with suppress(pymysql.MySQLError):
            if self._raw is not None:
                self._raw.close()


def consume(url: str, ledger: Path, name: str, drained: Path, accident: str) -> None:
    """Reads until the producers are done and nothing is left.

    ``accident``, in the middle of the work on a batch: it dies, or stands still until it is told
    to go on.
    """
    store = _opened(url)
    consumer = store.consumer(TOPIC, token=name, group=GROUP, lease=LEASE_S, min_share=MIN_SHARE)
    reads = 0
    with ledger.open("w") as told:
        while True:
            try:
                batch = consumer.read(200, wait=0.1)
                if not batch and drained.exists() and _is_done(consumer):
                    break
            except EngineUnavailable:
                time.sleep(0.02)
                continue
            if not batch:
                continue
            reads += 1
            if reads == ACCIDENT_AT and accident:
                os.kill(os.getpid(), ACCIDENTS[accident])
            _commit(consumer, batch, told)
    store.close()


def _is_done(consumer: topics.Consumer) -> bool:
    return not any(lag.messages for lag in consumer.lag().values())


def _commit(consumer: topics.Consumer, batch: topics.Batch, told: object) -> None:
    bodies = [one.text for one in batch]
    try:
        consumer.commit(batch)
    except ClaimLost:
        _tell(told, refused=bodies)
    except EngineUnavailable:
        _tell(told, unknown=bodies)
    else:
        _tell(told, acknowledged=bodies)


def _opened(url: str) -> topics.Store:
    while True:
        try:
            return topics.open(url)
        except EngineUnavailable:
            time.sleep(0.05)


def _tell(file: object, **what: list[str]) -> None:
    file.write(json.dumps(what) + "\n")  # type: ignore[attr-defined]
    file.flush()  # type: ignore[attr-defined]


# -- the run -------------------------------------------------------------------------------------


@dataclass
class Accounts:
    """What everybody said, and what the database says."""

    stored: Counter[str] = field(default_factory=Counter)
    produced: set[str] = field(default_factory=set)
    acknowledged: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    """How often each was acknowledged, says the database."""
    unknown: set[str] = field(default_factory=set)
    refused: int = 0
    tombstones: int = 0

    @property
    def missing(self) -> set[str]:
        """Confirmed to a producer and not there."""
        return self.produced - set(self.stored)

    @property
    def lost(self) -> set[str]:
        """There, and acknowledged by nobody."""
        return {one for one in self.stored if not self.ended[one]}

    @property
    def twice(self) -> set[str]:
        """Acknowledged more often than stored, as consumers say or as the database says."""
        return {
            one
            for said in (self.acknowledged, self.ended)
            for one, count in said.items()
            if count > self.stored[one]
        }

    def __str__(self) -> str:
        return (
            f"produced {len(self.produced)}, stored {sum(self.stored.values())}, acknowledged "
            f"{sum(self.ended.values())} (of which consumers know "
            f"{sum(self.acknowledged.values())}), outcome unknown {len(self.unknown)}, refused "
            f"{self.refused}, tombstones {self.tombstones}, missing {len(self.missing)}, lost "
            f"{len(self.lost)}, acknowledged twice {len(self.twice)}"
        )


def run(
    server: MariaDb, database: str, directory: Path, *, seconds: float, kill_server: bool = True
) -> Accounts:
    """4 producers, 4 consumers of one group, one of them killed, one paused until it has lost its
    claim, the server killed once."""
    url = server.url(database, grace_ms=20, timeout=5)
    with topics.open(url) as store:
        store.create(TOPIC)
    with server.connect(database) as connection, connection.cursor() as cursor:
        mysql_audit.watch(cursor, TOPIC)
    drained, killed = directory / "drained", directory / "killed"
    with ExitStack() as running:
        consumers = [
            _start(running, "consume", url, directory / f"c{number}", drained, accident)
            for number, accident in enumerate(("dies", "pauses", "", ""))
        ]
        producers = [
            _start(running, "produce", url, directory / f"p{number}", seconds, killed)
            for number in range(4)
        ]
        wait_for(lambda: consumers[0].poll() is not None, timeout=60)
        assert consumers[0].returncode == -signal.SIGKILL
        wait_for(lambda: is_stopped(consumers[1].pid), timeout=60)
        wait_for(lambda: not _holds(server, database, "c1"), timeout=60)
        consumers[1].send_signal(signal.SIGCONT)
        wait_for(lambda: '"refused"' in (directory / "c1").read_text(), timeout=60)
        if kill_server:
            server.kill()
            server.start()
        killed.touch()
        for one in producers:
            assert one.wait(seconds + 60) == 0
        drained.touch()
        for one in consumers[1:]:
            assert one.wait(60) == 0
    return _accounts(server, database, directory)


def _holds(server: MariaDb, database: str, token: str) -> bool:
    """Whether the member has ranges that nobody has taken over."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM msg_l_{TOPIC} WHERE token=%s AND end_id>0", (token,))
        return cursor.fetchone() is not None


def _start(running: ExitStack, role: str, *args: object) -> subprocess.Popen[bytes]:
    roots = (Path(headrace.__file__).parents[1], Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))}
    command = [sys.executable, "-m", "support.mysql_load", role, *map(str, args)]
    one = subprocess.Popen(command, env=environment)
    running.callback(_end, one)
    return one


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _accounts(server: MariaDb, database: str, directory: Path) -> Accounts:
    found = Accounts()
    with server.connect(database) as connection, connection.cursor() as cursor:
        for priority in PRIORITIES:
            cursor.execute(f"SELECT body,flags FROM msg_p_{TOPIC}_{priority}")
            for body, flags in cursor.fetchall():
                if flags:
                    found.tombstones += 1
                else:
                    found.stored[body.decode()] += 1
        found.ended = mysql_audit.acknowledged(cursor, TOPIC, GROUP)
    for ledger in directory.glob("p*"):
        for line in _lines(ledger):
            found.produced.update(line.get("stored", ()))
    for ledger in directory.glob("c*"):
        for line in _lines(ledger):
            found.acknowledged.update(line.get("acknowledged", ()))
            found.unknown.update(line.get("unknown", ()))
            found.refused += len(line.get("refused", ()))
    return found


def _lines(ledger: Path) -> Iterator[dict[str, list[str]]]:
    for line in ledger.read_text().splitlines():
        yield json.loads(line)


def main() -> None:
    role, url, ledger, *rest = sys.argv[1:]
    path = Path(ledger)
    if role == "produce":
        produce(url, path, path.name, float(rest[0]), Path(rest[1]))
    else:
        consume(url, path, path.name, Path(rest[0]), rest[1])


if __name__ == "__main__":
    main()
