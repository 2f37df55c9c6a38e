"""A process that stands still in the middle of a transaction: the others go on without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import EngineUnavailable
from headrace.retry import RetryPolicy
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.sql import connection
from headrace.store.topics.types import ConsumerSpec, Entry
from headrace.testing import wait_for
from support.mariadb import MariaDb
from support.process_state import is_stopped

# Stops with the rows of the group locked, between two statements of a claim.
MEMBER = """
import os, signal, sys
from headrace.store.sql import connection
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec

connection._IDLE_S = connection._IDLE_IN_TRANSACTION_S = int(sys.argv[2])
lock = group_rows.ReaderRows.lock_group

def stop(*args):
    found = lock(*args)
    os.kill(os.getpid(), signal.SIGSTOP)
    return found

group_rows.ReaderRows.lock_group = stop
engine = MySqlEngine(sys.argv[1])
try:
    engine.read("t", ConsumerSpec("frozen", "g"), 10)
finally:
    engine.close()
"""
Freeze = Callable[[int], subprocess.Popen[str]]
OTHER = ConsumerSpec("other", "g")


@pytest.fixture
def engine(engine: MySqlEngine) -> MySqlEngine:
    """With a group that is known, so that there are rows to lock."""
    engine.append("t", [Entry(b"first")])
    engine.commit("t", OTHER, engine.read("t", OTHER, 1).claim)
    return engine


@pytest.fixture
def freeze(server: MariaDb, database: str) -> Iterator[Freeze]:
    """A member that stands still inside a claim; the server bears it for so many seconds."""
    running: list[subprocess.Popen[str]] = []

    def start(idle_s: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
        command = [sys.executable, "-c", MEMBER, server.url(database, housekeeping="off")]
        one = subprocess.Popen(
            [*command, str(idle_s)], env=environment, stderr=subprocess.PIPE, text=True
        )
        running.append(one)
        wait_for(lambda: is_stopped(one.pid), timeout=60)
        return one

    yield start
    for one in running:
        one.kill()
        one.communicate()


def test_a_member_stopped_inside_a_claim_blocks_no_other_member(
    engine: MySqlEngine, freeze: Freeze
) -> None:
    engine.append("t", [Entry(b"a"), Entry(b"b")])
    member = freeze(1)
    taken = engine.read("t", OTHER, 10)  # waits until the server is tired of it
    assert [one.body for one in taken.messages] == [b"a", b"b"]
    assert {one.attempts for one in taken.messages} == {1}  # the claim was never made
    engine.commit("t", OTHER, taken.claim)
    member.send_signal(signal.SIGCONT)
    _, told = member.communicate(timeout=60)
    assert EngineUnavailable.__name__ in told  # and does not believe that it has them


def test_without_the_limit_the_group_would_stand_still(
    engine: MySqlEngine, freeze: Freeze, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the test above can fail: nobody ends the transaction, and the others are refused."""
    engine.append("t", [Entry(b"a")])
    freeze(3600)
    once = RetryPolicy(attempts=1)  # 3 seconds each
    monkeypatch.setattr(connection, "CONFLICT", once)
    monkeypatch.setattr(engine.context.readers, "_policy", once)
    with pytest.raises(EngineUnavailable, match="busy"):
        engine.read("t", OTHER, 10)


def test_a_server_other_than_mariadb_ends_connections_that_do_nothing() -> None:
    assert "wait_timeout" in connection._leave_no_locks("8.0.35")
    assert "idle_transaction_timeout" in connection._leave_no_locks("10.11.6-MariaDB-log")
