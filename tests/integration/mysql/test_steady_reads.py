"""The usual read of a group takes few round trips, and gives way to the full one when it must."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
import pytest

from headrace.errors import ClaimLost, EngineUnavailable
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.groups import claims, group_reads, group_rows
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult

READER = ConsumerSpec("c1", "g")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The statements that are sent."""
    sent: list[str] = []

    def count(name: str) -> None:
        real = getattr(DbConnection, name)

        def call(self: DbConnection, sql: str, values: object = ()) -> object:
            sent.append(sql)
            return real(self, sql, values)

        patched.setattr(DbConnection, name, call)

    with monkeypatch.context() as patched:
        for name in ("rows", "run", "insert", "change"):
            count(name)
        yield sent


def append(engine: MySqlEngine, count: int, priority: Priority = Priority.MIDDLE) -> None:
    engine.append("t", [Entry(b"%d" % n, priority) for n in range(count)])


def ids(result: ReadResult) -> list[tuple[str, int]]:
    return [(one.priority.label, one.id) for one in result.messages]


@pytest.mark.parametrize("size", [1, 20])
def test_a_read_and_commit_take_at_most_four_round_trips(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(
        group_reads, "_KEEP_S", 3600.0
    )  # the offset for others is written now and then
    append(engine, 200)
    for _ in range(2):  # makes the group, and learns how large the messages are
        engine.commit("t", READER, engine.read("t", READER, size).claim)
    with counted(monkeypatch) as sent:
        first = engine.read("t", READER, size)
        engine.commit("t", READER, first.claim)
    assert ids(first) == [("middle", 2 * size + 1 + n) for n in range(size)]
    assert len(sent) <= 4, sent
    second = engine.read("t", READER, size)
    with counted(monkeypatch) as sent:
        third = engine.commit_and_read("t", READER, second.claim, size)
    assert ids(third) == [("middle", 4 * size + 1 + n) for n in range(size)]
    assert len(sent) <= 3, sent


def test_messages_of_a_higher_priority_come_first_whoever_appended_them(
    engine: MySqlEngine, start_engine: object
) -> None:
    other: MySqlEngine = start_engine()  # type: ignore[operator]
    append(engine, 10)
    result = engine.read("t", READER, 1)
    for expected in (2, 3):
        result = engine.commit_and_read("t", READER, result.claim, 1)
        assert ids(result) == [("middle", expected)]
    append(other, 1, Priority.HIGH)
    result = engine.commit_and_read("t", READER, result.claim, 2)
    assert ids(result) == [("high", 1), ("middle", 4)]


def test_a_nacked_message_is_handed_out_before_new_ones(engine: MySqlEngine) -> None:
    append(engine, 10)
    for _ in range(2):
        engine.commit("t", READER, engine.read("t", READER, 1).claim)
    result = engine.read("t", READER, 1)
    engine.nack("t", READER, result.claim, None, 0)
    assert ids(engine.read("t", READER, 1)) == ids(result)


def test_a_claim_that_is_lost_is_not_committed_by_the_next_read(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    append(engine, 10)
    result = engine.read("t", READER, 1)
    result = engine.commit_and_read("t", READER, result.claim, 1)
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1")
    with pytest.raises(ClaimLost):
        engine.commit_and_read("t", READER, result.claim, 1)
    sql.execute("SELECT claimed FROM msg_c_t WHERE priority='middle' AND group_id='g'")
    assert sql.fetchall() == ((2,),)
    assert ids(engine.read("t", ConsumerSpec("c2", "g"), 1)) == ids(result)


def no_cluster(*_: object) -> None:
    raise Fault(1047, "WSREP has not yet prepared node for application use")


def test_a_commit_is_done_even_if_the_offset_for_others_cannot_be_written(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(engine, 10)
    result = engine.read("t", READER, 1)
    monkeypatch.setattr(group_reads, "_KEEP_S", 0.0)
    monkeypatch.setattr(group_rows, "keep_offsets", no_cluster)
    engine.commit("t", READER, result.claim)
    assert ids(engine.read("t", READER, 1)) == [("middle", 2)]


def test_the_offset_for_others_is_not_that_of_before_a_reset(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(engine, 10)
    engine.commit("t", READER, engine.read("t", READER, 10).claim)
    sql.execute("UPDATE msg_c_t SET `offset`=0")
    real = DbConnection.run

    def late(self: DbConnection, text: str, values: object = ()) -> int:
        if "GREATEST(`offset`" in text:
            monkeypatch.setattr(DbConnection, "run", real)
            engine.seek("t", READER, positions={Priority.MIDDLE: 2})
        return real(self, text, values)  # type: ignore[arg-type]

    monkeypatch.setattr(DbConnection, "run", late)
    monkeypatch.setattr(group_reads, "_KEEP_S", 0.0)
    assert not engine.read("t", READER, 1).messages
    sql.execute("SELECT `offset` FROM msg_c_t WHERE priority='middle'")
    assert sql.fetchall() == ((2,),)


def test_a_read_that_fails_behind_its_commit_does_not_say_that_nothing_was_done(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(engine, 10)
    result = engine.read("t", READER, 1)
    with monkeypatch.context() as patched:
        patched.setattr(claims, "messages_of", no_cluster)
        with pytest.raises(EngineUnavailable) as caught:
            engine.commit_and_read("t", READER, result.claim, 1)
    assert "nothing was done" not in str(caught.value)
    with pytest.raises(ClaimLost):  # it is committed
        engine.commit("t", READER, result.claim)


@pytest.mark.parametrize("commits", [True, False])
def test_a_lost_answer_leaves_no_doubt_about_what_is_unknown(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    append(engine, 10)
    result = engine.read("t", READER, 1)
    if not commits:
        engine.commit("t", READER, result.claim)

    def lose(*_: object) -> None:
        raise Fault(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(DbConnection, "change", lose)
    with pytest.raises(EngineUnavailable) as caught:
        if commits:
            engine.commit_and_read("t", READER, result.claim, 1)
        else:
            engine.read("t", READER, 1)
    assert ("the commit may have been done" in str(caught.value)) is commits
    assert "what it handed out comes again after the lease" in str(caught.value)


def test_what_is_left_at_the_end_is_read_with_fewer_messages(engine: MySqlEngine) -> None:
    append(engine, 25)
    found = []
    result = engine.read("t", READER, 10)
    while result.messages:
        found.append(len(result.messages))
        result = engine.commit_and_read("t", READER, result.claim, 10)
    assert found == [10, 10, 5]
    assert engine.lag("t", READER)[1].messages == 0


def test_tombstones_do_not_make_a_batch_smaller(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    append(engine, 60)
    sql.execute("UPDATE msg_p_t_middle SET flags=1 WHERE id BETWEEN 21 AND 34")
    for expected in ([*range(1, 11)], [*range(11, 21)], [*range(35, 45)]):
        result = engine.read("t", READER, 10)
        assert [number for _, number in ids(result)] == expected
        engine.commit("t", READER, result.claim)
