"""Two brokers on one database, one of them killed: its members' claims are taken over in time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import topics
from headrace.errors import BrokerError
from headrace.testing import wait_for
from support import brokers, mysql_audit
from support.brokers import Broker
from support.mariadb import MariaDb

DATABASE = "killed_node"
LEASE = 2.0
SLACK = 5.0  # of a machine that has a lot to do
PRIORITIES = ("high", "middle", "low")


@pytest.fixture
def nodes(mariadb_server: MariaDb, tmp_path: Path) -> Iterator[list[Broker]]:
    mariadb_server.create_database(DATABASE)
    url = mariadb_server.url(DATABASE, grace_ms=10)
    started = []
    for number in range(2):
        directory = tmp_path / f"node{number}"
        directory.mkdir()
        started.append(brokers.start(directory, "--engine", f"shop={url}"))
    yield started
    for node in started:
        node.stop()
    with mariadb_server.connect(None) as connection:
        connection.cursor().execute(f"DROP DATABASE {DATABASE}")


def opened(node: Broker) -> topics.Store:
    return topics.open(f"headrace://guest:guest@127.0.0.1:{node.native_port}/")


class Member:
    """Reads and commits in a thread until its node is gone, or it is told to end."""

    def __init__(self, node: Broker, token: str, *, hold_at: int | None = None) -> None:
        self.store = opened(node)
        self.token = token
        self.done: list[str] = []
        self.again: dict[str, float] = {}  # what somebody had before, and when it came here
        self.held: list[str] = []
        self.held_at = 0.0
        self._hold_at = hold_at
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            consumer = self.store.consumer("jobs", token=self.token, group="g", lease=LEASE)
            reads = 0
            while not self._ended.is_set():
                batch = consumer.read(20, wait=0.2)
                reads += bool(batch)
                if self._hold_at is not None and reads == self._hold_at:
                    self.held_at = time.monotonic()
                    self.held = [one.text for one in batch]
                    return  # with a claim that it never commits
                now = time.monotonic()
                self.again |= {one.text: now for one in batch if one.attempts > 1}
                consumer.commit(batch)
                self.done += [one.text for one in batch]
        except BrokerError:
            return  # its node was killed: whether the last commit was done it does not know

    def end(self) -> None:
        self._ended.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        self.store.close()


def test_members_of_a_killed_node_are_replaced_within_the_lease(
    nodes: list[Broker], mariadb_server: MariaDb
) -> None:
    with opened(nodes[1]) as store:
        store.create("jobs", engine="shop")
        with mariadb_server.connect(DATABASE) as connection, connection.cursor() as cursor:
            mysql_audit.watch(cursor, "jobs")
        with opened(nodes[0]) as other:
            wait_for(lambda: "jobs" in [one.name for one in other.list()], timeout=15)
        members = [
            Member(nodes[0], "a0"),
            Member(nodes[0], "a1", hold_at=3),
            Member(nodes[1], "b0"),
            Member(nodes[1], "b1"),
        ]
        produced: list[str] = []
        producer = store.producer("jobs", token="p")

        def produce() -> None:
            """Some of every priority, and a little pause: the members live from hand to mouth."""
            bodies = [f"{len(produced) + step}" for step in range(30)]
            for priority in PRIORITIES:
                part = bodies[PRIORITIES.index(priority) :: 3]
                producer.append_many([topics.NewMessage(one, priority) for one in part])
            produced.extend(bodies)

        def all_at_work() -> bool:
            produce()
            doomed, holder, *steady = members
            return bool(doomed.done and holder.held and all(len(one.done) > 60 for one in steady))

        wait_for(all_at_work, timeout=60, interval=0.02)
        nodes[0].kill()
        for _ in range(20):
            produce()
        held = members[1]

        def taken_over() -> dict[str, float]:
            again = {body: at for one in members for body, at in one.again.items()}
            return again if set(held.held) <= set(again) else {}

        again = wait_for(taken_over, timeout=LEASE + SLACK)
        assert max(again[one] for one in held.held) - held.held_at <= LEASE + SLACK

        def nothing_left() -> bool:
            lag = store.consumer("jobs", token="b0", group="g").lag()
            return not any(priority.messages for priority in lag.values())

        wait_for(nothing_left, timeout=60)
        for one in members:
            one.end()
    said = Counter(body for one in members for body in one.done)
    with mariadb_server.connect(DATABASE) as connection, connection.cursor() as cursor:
        acknowledged = mysql_audit.acknowledged(cursor, "jobs", "g")
    assert acknowledged == Counter(produced)  # each once, says the database
    assert not said - acknowledged
    assert not set(held.held) & set(held.done)
