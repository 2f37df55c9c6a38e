"""Tables of version 1 are upgraded in place, whenever that is interrupted; old programs fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

import headrace
from fixtures import contents
from fixtures.opening import mysql_statements
from headrace import topics
from headrace.errors import EngineUnavailable
from support.mariadb import MariaDb

Cursor = pymysql.cursors.Cursor
# Dies as its upgrade sends statement number N, which changes something.
DYING = """
import os, signal, sys
from headrace.store.mysql import schema
from headrace.store.sql.connection import DbConnection
from headrace import topics

run, left = DbConnection.run, [int(sys.argv[2])]

def count(self, sql, values=()):
    if sql.startswith(("RENAME", "CREATE", "INSERT IGNORE INTO `msg_counter`", "ALTER",
                       "INSERT IGNORE INTO `msg_schema`")):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return run(self, sql, values)

DbConnection.run = count
topics.open(sys.argv[1]).close()
"""
STEPS = 11
# Each is what a program of version 1 sends: a read, the end of one, an append with a counter.
STATEMENTS_OF_VERSION_1 = (
    "SELECT priority,stable_id,low_id FROM `msg_topic_state` WHERE topic='single'",
    "UPDATE `msg_topic_state` SET stable_id=GREATEST(stable_id,20) WHERE topic='single'",
    "UPDATE `msg_topic_state` SET last_id=LAST_INSERT_ID(last_id+1) WHERE topic='single'",
)


def make_old_tables(sql: Cursor) -> None:
    sql.execute("SHOW TABLES")
    for (table,) in sql.fetchall():
        sql.execute(f"DROP TABLE {table}")
    for statement in mysql_statements():
        sql.execute(statement)
    sql.execute("UPDATE msg_topic_state SET last_id=stable_id")


@pytest.fixture
def old_tables(sql: Cursor) -> None:
    make_old_tables(sql)


def version(sql: Cursor) -> int:
    sql.execute("SELECT MAX(version) FROM msg_schema")
    [(found,)] = sql.fetchall()
    return int(found)


def open_dying(url: str, step: int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])}
    command = [sys.executable, "-c", DYING, url, str(step)]
    return subprocess.run(command, env=environment, timeout=60, check=False).returncode


@pytest.mark.parametrize("step", range(STEPS))
def test_an_upgrade_killed_at_any_step_is_finished_by_the_next_process(
    server: MariaDb, database: str, sql: Cursor, step: int
) -> None:
    make_old_tables(sql)
    url = server.url(database, housekeeping="off")
    assert open_dying(url, step) == -signal.SIGKILL
    assert version(sql) == 1
    sql.execute("UPDATE msg_lease SET lease_until_ms=0")  # spares the test ten seconds
    with topics.open(url) as store:
        assert version(sql) == 2
        sql.execute("SELECT priority,last_id FROM msg_counter WHERE topic='single' ORDER BY 1")
        assert sql.fetchall() == (("low", 0), ("middle", contents.SINGLES), ("high", 0))
        sql.execute("SHOW COLUMNS FROM msg_readable LIKE 'last_id'")
        assert not sql.fetchall()
        found = store.consumer("single", token="all").read(100)
        assert [one.body for one in found] == [b"single-%d" % at for at in range(contents.SINGLES)]


@pytest.mark.usefixtures("old_tables")
def test_an_upgrade_has_no_more_steps_than_that(
    server: MariaDb, database: str, sql: Cursor
) -> None:
    assert open_dying(server.url(database, housekeeping="off"), STEPS) == 0
    assert version(sql) == 2


@pytest.mark.usefixtures("old_tables")
def test_tables_in_use_by_version_1_are_refused_with_a_list(
    server: MariaDb, database: str, sql: Cursor
) -> None:
    sql.execute(
        "INSERT INTO msg_node VALUES ('old-7-ab','old',1,UNIX_TIMESTAMP(NOW(3))*1000),"
        "('gone-8-cd','gone',1,UNIX_TIMESTAMP(NOW(3))*1000-3600000)"
    )
    with pytest.raises(EngineUnavailable, match=r"version 1.*: old-7-ab\. Stop them"):
        topics.open(server.url(database))
    assert version(sql) == 1
    sql.execute("SELECT COUNT(*) FROM msg_topic_state")  # as it was


@pytest.mark.usefixtures("old_tables")
@pytest.mark.parametrize("statement", STATEMENTS_OF_VERSION_1)
def test_statements_of_version_1_fail_after_the_upgrade(
    server: MariaDb, database: str, sql: Cursor, statement: str
) -> None:
    sql.execute(statement)
    topics.open(server.url(database, housekeeping="off")).close()
    with pytest.raises(pymysql.err.ProgrammingError, match="msg_topic_state"):
        sql.execute(statement)
