"""Members that read quickly claim what they read next: nothing is lost, early, late or twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.groups import claims, group_reads, read_ahead
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult
from headrace.topics.consumer import AppendSignal, Consumer

ONE, TWO = ConsumerSpec("c1", "g"), ConsumerSpec("c2", "g")
_AHEAD = 16  # the largest number of ids that is not larger than a fourth of those below
_MESSAGES = 100
StartEngine = Callable[..., MySqlEngine]


@pytest.fixture(autouse=True)
def _times_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AHEAD_S", "_QUICK_S", "LOOK_S"):
        monkeypatch.setattr(read_ahead, name, 3600.0)
    monkeypatch.setattr(read_ahead, "LEASE_MS", 3_600_000)
    monkeypatch.setattr(read_ahead, "_MAX_IDS", _AHEAD)
    monkeypatch.setattr(group_reads, "_KEEP_S", 3600.0)
    monkeypatch.setattr(group_reads, "_DUE_S", -1.0)


def ids(result: ReadResult) -> list[tuple[str, int]]:
    return [(one.priority.label, one.id) for one in result.messages]


def quick(engine: MySqlEngine, sql: pymysql.cursors.Cursor) -> tuple[ReadResult, int]:
    """What a quick member has read last, after it has claimed ahead; and the last id it has."""
    engine.append("t", [Entry(b"%d" % n) for n in range(_MESSAGES)])
    result = engine.read("t", ONE, 1)
    while True:
        assert [one.attempts for one in result.messages] == [1]
        if found := claimed_ahead(sql):
            return result, found
        result = engine.commit_and_read("t", ONE, result.claim, 1)


def noted(real: Callable[..., object], sent: list[str]) -> Callable[..., object]:
    def call(self: DbConnection, text: str, values: object = ()) -> object:
        sent.append(text)
        return real(self, text, values)

    return call


def claimed_ahead(sql: pymysql.cursors.Cursor) -> int:
    sql.execute("SELECT MAX(end_id) FROM msg_l_t WHERE attempts=0 AND lease_until_ms>0")
    [(last,)] = sql.fetchall()
    return last or 0


def all_of(engine: MySqlEngine, reader: ConsumerSpec, size: int = 7) -> list[int]:
    found: list[int] = []
    result = engine.read("t", reader, size)
    while result.messages:
        assert all(one.attempts == 1 for one in result.messages)
        found += [one.id for one in result.messages]
        result = engine.commit_and_read("t", reader, result.claim, size)
    return found


def test_a_quick_read_with_commit_is_one_round_trip(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, last = quick(engine, sql)
    sent: list[str] = []
    for name in ("rows", "run", "insert", "change"):
        monkeypatch.setattr(DbConnection, name, noted(getattr(DbConnection, name), sent))
    first = result.messages[0].id
    for expected in range(first + 1, last + 1):
        result = engine.commit_and_read("t", ONE, result.claim, 1)
        assert ids(result) == [("middle", expected)]
    assert len(sent) == last - first, sent


@pytest.mark.parametrize("size", [1, 3])
def test_everything_is_read_once_and_in_order(engine: MySqlEngine, size: int) -> None:
    engine.append("t", [Entry(b"x")] * _MESSAGES)
    assert all_of(engine, ONE, size) == [*range(1, _MESSAGES + 1)]
    assert engine.lag("t", ONE)[1].messages == 0


def test_dead_ids_among_those_ahead_do_not_make_a_batch_smaller(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    engine.append("t", [Entry(b"x")] * _MESSAGES)
    sql.execute("UPDATE msg_p_t_middle SET flags=1 WHERE id%5=0 OR id BETWEEN 41 AND 60")
    found, sizes = [], []
    result = engine.read("t", ONE, 2)
    while result.messages:
        sizes.append(len(result.messages))
        found += [one.id for one in result.messages]
        result = engine.commit_and_read("t", ONE, result.claim, 2)
    assert found == [n for n in range(1, _MESSAGES + 1) if n % 5 and not 41 <= n <= 60]
    assert set(sizes) == {2}


def test_another_member_gets_none_of_them(engine: MySqlEngine, sql: pymysql.cursors.Cursor) -> None:
    result, last = quick(engine, sql)
    assert all_of(engine, TWO) == [*range(last + 1, _MESSAGES + 1)]
    first = result.messages[0].id
    engine.commit("t", ONE, result.claim)
    assert all_of(engine, ONE, 1) == [*range(first + 1, last + 1)]
    assert engine.lag("t", ONE)[1].messages == 0


@pytest.mark.parametrize("how", ["consumer", "engine"])
def test_a_member_that_closes_releases_them(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, start_engine: StartEngine, how: str
) -> None:
    other = start_engine()
    result, _ = quick(engine, sql)
    engine.commit("t", ONE, result.claim)
    if how == "consumer":
        Consumer(engine, AppendSignal(), "t", ONE).close()
    else:
        engine.close()
    assert all_of(other, TWO) == [*range(result.messages[0].id + 1, _MESSAGES + 1)]


def test_those_of_a_lost_member_come_when_the_lease_ends(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, start_engine: StartEngine
) -> None:
    result, _ = quick(engine, sql)
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1 WHERE attempts=0")
    first = result.messages[0].id
    taken = start_engine().read("t", TWO, 3)
    assert ids(taken) == [("middle", first + n) for n in (1, 2, 3)]
    assert {one.attempts for one in taken.messages} == {1}
    engine.commit("t", TWO, taken.claim)
    after = engine.commit_and_read("t", ONE, result.claim, 1)  # it was only slow
    assert ids(after) == [("middle", first + 4)]
    engine.commit("t", ONE, after.claim)
    assert all_of(engine, ONE) == [*range(first + 5, _MESSAGES + 1)]


def test_a_slow_member_releases_them(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, last = quick(engine, sql)
    monkeypatch.setattr(read_ahead, "LEASE_MS", 0)
    result = engine.commit_and_read("t", ONE, result.claim, 1)
    taken = engine.read("t", TWO, last)
    assert taken.messages[0].id == result.messages[0].id + 1


def test_a_member_that_becomes_slow_does_not_keep_them(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    """Each read would keep hundreds of messages from idle members for another moment."""
    leases = set()
    result, last = quick(engine, sql)
    while result.messages[0].id < last - 1:
        sql.execute("SELECT lease_until_ms FROM msg_l_t WHERE attempts=0")
        leases.update(sql.fetchall())
        result = engine.commit_and_read("t", ONE, result.claim, 1)
    assert len(leases) == 1


@pytest.mark.parametrize("is_here", [True, False])
def test_a_higher_priority_comes_first(
    engine: MySqlEngine,
    sql: pymysql.cursors.Cursor,
    start_engine: StartEngine,
    monkeypatch: pytest.MonkeyPatch,
    is_here: bool,
) -> None:
    result, _ = quick(engine, sql)
    first = result.messages[0].id
    (engine if is_here else start_engine()).append("t", [Entry(b"h", Priority.HIGH)] * 2)
    if not is_here:
        result, first = engine.commit_and_read("t", ONE, result.claim, 1), first + 1
        assert ids(result) == [("middle", first)]
        monkeypatch.setattr(read_ahead, "LOOK_S", -1.0)
    for expected in (("high", 1), ("high", 2), ("middle", first + 1), ("middle", first + 2)):
        result = engine.commit_and_read("t", ONE, result.claim, 1)
        assert ids(result) == [expected]


def test_rows_of_ids_that_were_released_are_used_again(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    engine.append("t", [Entry(b"x")] * 400)
    result, found = engine.read("t", ONE, 1), []
    while result.messages:
        found += ids(result)
        if len(found) % 20 == 0:
            engine.append("t", [Entry(b"h", Priority.HIGH)])
        result = engine.commit_and_read("t", ONE, result.claim, 1)
    assert [number for label, number in found if label == "middle"] == [*range(1, 401)]
    assert len(found) == len(set(found))
    sql.execute("SELECT COUNT(*) FROM msg_l_t")
    assert sql.fetchall()[0][0] <= 5


def test_a_row_that_a_member_takes_into_use_is_not_overwritten(
    engine: MySqlEngine,
    sql: pymysql.cursors.Cursor,
    start_engine: StartEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another member has seen it free, because its last lease is over."""
    result, last = quick(engine, sql)
    first = result.messages[0].id
    engine.commit("t", ONE, result.claim)
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1 WHERE end_id=0")
    real, handed = claims._find, []

    def early(*values: Any) -> object:  # noqa: ANN401 - what it takes
        found = real(*values)
        if not handed:
            handed.append(ids(result := engine.read("t", ONE, 1)))
            engine.renew("t", ONE, result.claim)
            handed.append(result.claim)
        return found

    monkeypatch.setattr(claims, "_find", early)
    assert all_of(start_engine(), TWO) == [*range(last + 1, _MESSAGES + 1)]
    assert handed[0] == [("middle", first + 1)]
    engine.commit("t", ONE, handed[1])
    assert all_of(engine, ONE) == [*range(first + 2, last + 1)]


def test_a_higher_priority_that_comes_while_ids_are_claimed_is_not_missed(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.append("t", [Entry(b"x")] * _MESSAGES)
    real = read_ahead.ReadAhead.size
    has_appended: list[int] = []

    def late(self: read_ahead.ReadAhead, *values: object) -> int:
        size = real(self, *values)  # type: ignore[arg-type]
        if size and not has_appended:  # after the look, before the claim
            has_appended.append(size)
            engine.append("t", [Entry(b"h", Priority.HIGH)])
        return size

    monkeypatch.setattr(read_ahead.ReadAhead, "size", late)
    result = engine.read("t", ONE, 1)
    while not has_appended:
        result = engine.commit_and_read("t", ONE, result.claim, 1)
    assert ("high", 1) in ids(result) + ids(engine.commit_and_read("t", ONE, result.claim, 1))


def test_what_is_nacked_here_comes_first(engine: MySqlEngine, sql: pymysql.cursors.Cursor) -> None:
    result, _ = quick(engine, sql)
    first = result.messages[0].id
    engine.nack("t", ONE, result.claim, None, 0)
    again = engine.read("t", ONE, 1)
    assert ids(again) == ids(result)
    engine.commit("t", ONE, again.claim)
    assert all_of(engine, ONE) == [*range(first + 1, _MESSAGES + 1)]


def test_a_seek_makes_them_void(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, start_engine: StartEngine
) -> None:
    result, _ = quick(engine, sql)
    start_engine().seek("t", TWO, positions={Priority.MIDDLE: 2})
    with pytest.raises(ClaimLost):
        engine.commit_and_read("t", ONE, result.claim, 1)
    assert all_of(engine, ONE) == [*range(3, _MESSAGES + 1)]


def test_a_claim_that_is_lost_is_not_committed_and_they_are_not_lost(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor
) -> None:
    result, _ = quick(engine, sql)
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1 WHERE attempts>0 AND end_id>0")
    with pytest.raises(ClaimLost):
        engine.commit_and_read("t", ONE, result.claim, 1)
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1")
    found = engine.read("t", TWO, _MESSAGES)
    assert [one.id for one in found.messages] == [*range(result.messages[0].id, _MESSAGES + 1)]


def test_what_two_threads_of_a_member_claimed_ahead_is_released(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second reads while the first is at it."""
    result, _ = quick(engine, sql)
    engine.commit("t", ONE, result.claim)
    real = read_ahead.hand_over
    calls: list[int] = []
    claimed = "SELECT COUNT(*) FROM msg_l_t WHERE attempts=0 AND end_id>0 AND lease_until_ms>"

    def at_once(*values: Any) -> object:  # noqa: ANN401 - what it takes
        calls.append(len(calls))
        while calls == [0] or not has_both():
            engine.commit("t", ONE, engine.read("t", ONE, 1).claim)
        return real(*values)

    def has_both() -> bool:
        sql.execute(claimed + "0")
        return len(calls) > 2 or sql.fetchall() == ((2,),)

    with monkeypatch.context() as patched:
        patched.setattr(read_ahead, "hand_over", at_once)
        engine.commit("t", ONE, engine.read("t", ONE, 1).claim)
    assert len(calls) > 1
    engine.release("t", ONE)
    sql.execute(claimed + tables.NOW)
    assert sql.fetchall() == ((0,),)
