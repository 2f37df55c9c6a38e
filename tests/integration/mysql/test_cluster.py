"""Galera: three nodes that all write. Nothing lost, nothing twice, whichever node fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pymysql
import pytest

from headrace.errors import NoSuchTopic, TopicConflict
from headrace.store.mysql import appends
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.groups import group_rows, read_ahead
from headrace.store.mysql.message_rows import COLUMNS, Values
from headrace.store.sql import connection
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.topics.types import Entry, TopicSpec
from headrace.testing import wait_for
from support import cluster_ledger
from support.galera import SIZE, Galera, run_galera
from support.mariadb import MariaDb

_numbers = count(1)
Cluster = tuple[Galera, str]


@pytest.fixture(scope="module")
def galera() -> Iterator[Galera]:
    with run_galera() as cluster:
        yield cluster


@pytest.fixture
def cluster(galera: Galera) -> Iterator[Cluster]:
    """The cluster, and a database of its own."""
    name = f"cluster_{next(_numbers)}"
    galera.wait()
    galera.nodes[0].create_database(name)
    wait_for(lambda: all(_has_database(node, name) for node in galera.nodes), timeout=30)
    yield galera, name
    with galera.nodes[0].connect(None) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


def _has_database(node: MariaDb, name: str) -> bool:
    try:
        node.connect(name).close()
    except pymysql.MySQLError:
        return False
    return True


@pytest.fixture(autouse=True)
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Members claim ahead after two reads; what they have read of that."""
    monkeypatch.setattr(read_ahead, "_QUICK_READS", 2)
    for name in ("_QUICK_S", "_AHEAD_S"):
        monkeypatch.setattr(read_ahead, name, 0.5)
    real, found = read_ahead.hand_over, []

    def noted(*values: Any) -> object:  # noqa: ANN401 - what it takes
        if taken := real(*values):
            found.append(taken)
        return taken

    monkeypatch.setattr(read_ahead, "hand_over", noted)
    return found


def urls(cluster: Cluster) -> list[str]:
    """Each begins with a node of its own."""
    galera, name = cluster
    orders = [[(first + step) % SIZE for step in range(SIZE)] for first in range(SIZE)]
    return [galera.url(name, *order, timeout=5, connect_timeout=6) for order in orders]


@pytest.mark.timeout(120)
def test_nothing_is_lost_or_repeated_while_all_nodes_write(cluster: Cluster) -> None:
    accounts = cluster_ledger.run(urls(cluster), seed=1, appends=2000)
    print(accounts)  # noqa: T201 - shown with -s, and when something is wrong
    accounts.check()


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 22))
def test_nothing_is_lost_or_repeated_with_any_seed(
    cluster: Cluster, seed: int, handed_over: list[object]
) -> None:
    accounts = cluster_ledger.run(urls(cluster), seed, appends=2000)
    print(accounts, len(handed_over), "claimed ahead")  # noqa: T201
    accounts.check()


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lease_ms", [20, 200])
@pytest.mark.parametrize("seed", range(22, 25))
def test_nothing_is_lost_or_repeated_of_what_is_claimed_ahead(
    cluster: Cluster,
    seed: int,
    lease_ms: int,
    handed_over: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a lease so short that others often take what a member has claimed ahead."""
    monkeypatch.setattr(read_ahead, "LEASE_MS", lease_ms)
    accounts = cluster_ledger.run(urls(cluster), seed, appends=2000, is_quick=True)
    print(accounts, len(handed_over), "claimed ahead")  # noqa: T201
    accounts.check()
    assert len(handed_over) > 200


def killed(galera: Galera) -> None:
    galera.nodes[1].kill()
    galera.nodes[1].start()
    galera.wait()


def stopped(galera: Galera) -> None:
    process = galera.nodes[1].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(12)
    os.kill(process.pid, signal.SIGCONT)
    galera.wait()


def cut_off(galera: Galera) -> None:
    galera.isolate(1, is_cut_off=True)
    time.sleep(12)
    galera.isolate(1, is_cut_off=False)
    galera.wait()


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("accident", [killed, stopped, cut_off])
def test_nothing_is_lost_or_repeated_when_a_node_fails(
    cluster: Cluster,
    accident: Callable[[Galera], None],
    is_quick: bool,
    handed_over: list[object],
) -> None:
    accounts = cluster_ledger.run(
        urls(cluster),
        seed=3,
        appends=3000,
        accident=lambda: accident(cluster[0]),
        is_quick=is_quick,
    )
    print(accident.__name__, accounts, len(handed_over), "claimed ahead")  # noqa: T201
    accounts.check()


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_ledger_notices_claims_that_write_no_row_of_their_group(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the tests above can fail."""

    def lock(own: group_rows.ReaderRows) -> int:
        found = own.session.rows(
            f"SELECT 1 FROM {own.cursors} WHERE group_key=%s AND token='' FOR UPDATE",
            (own.reader.group,),
        )
        return len(found)

    monkeypatch.setattr(group_rows.ReaderRows, "lock_group", lock)
    runs = (cluster_ledger.run(urls(cluster), seed, appends=2000) for seed in range(4))
    assert any(one.lost or one.acknowledged_twice for one in runs)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_ledger_notices_appends_in_one_packet(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same: a COMMIT that comes with other statements succeeds after an abort."""
    multi_statements = 1 << 16
    monkeypatch.setattr(connection, "_FOUND_ROWS", connection._FOUND_ROWS | multi_statements)
    monkeypatch.setattr(appends.RowWriter, "_counted", in_one_packet)
    runs = (cluster_ledger.run(urls(cluster), seed, appends=2000) for seed in range(4))
    assert any(one.lost or one.ids_twice for one in runs)


def in_one_packet(
    self: appends.RowWriter, session: DbConnection, parts: list[Sequence[Values]]
) -> list[int]:
    """BEGIN, the step of the counter, the rows and COMMIT, as version 1 did it."""
    rows = [row for part in parts for row in part]
    topic, priority, size = self._topic.name, self._priority, len(rows)
    found = [appends._places([row]) for row in rows]
    places = [f"(LAST_INSERT_ID()-{size - 1 - at},{one[1:]}" for at, (one, _) in enumerate(found)]
    try:
        with session._faults():
            session._cursor.execute(
                "BEGIN; UPDATE `msg_counter` SET last_id=LAST_INSERT_ID(last_id+%s) "
                f"WHERE topic=%s AND priority=%s; INSERT INTO {self._table} (id,{COLUMNS}) "
                f"VALUES {','.join(places)}; COMMIT",
                [size, topic, priority.label, *(value for _, its in found for value in its)],
            )
            session._cursor.nextset()
            last = session._cursor.lastrowid
            while session._cursor.nextset():
                pass
    except Fault as fault:
        if not session.is_broken:
            session.run("ROLLBACK")
        if fault.code == appends.DUPLICATE:
            with session.transaction():
                appends.pass_rows(session, topic, priority, size)
        raise
    return list(range(last - size + 1, last + 1))


def test_topics_made_and_deleted_on_all_nodes_at_once(cluster: Cluster) -> None:
    galera, name = cluster
    failed: list[BaseException] = []

    def work(engine: MySqlEngine) -> None:
        try:
            for number in range(3):
                for step in (engine.create, lambda spec: engine.delete(spec.name)):
                    try:
                        step(TopicSpec(f"t{number}", options={"append_mode": "counter"}))
                    except (NoSuchTopic, TopicConflict):
                        pass  # another node was faster
        except BaseException as error:
            failed.append(error)

    engines = [MySqlEngine(galera.url(name, number)) for number in range(SIZE)]
    threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert not failed
        for number in range(3):  # no orphans in the way
            engines[0].create(TopicSpec(f"t{number}", options={"append_mode": "counter"}))
            engines[1].append(f"t{number}", [Entry(b"seen at once")])
    finally:
        for engine in engines:
            engine.close()
