"""Ids become visible in any order, and some never do: nothing is skipped, nothing stands still."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable

import pymysql
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import stable_ids
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import wait_for
from support.example_counts import examples
from support.mariadb import MariaDb

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]
INSERT = "INSERT INTO msg_p_t_middle (body,token) VALUES (%s,'p')"


def drain(engine: MySqlEngine, reader: ConsumerSpec) -> list[bytes]:
    taken = engine.read("t", reader, 1000)
    engine.commit("t", reader, taken.claim)
    return [one.body for one in taken.messages]


def test_a_producer_that_is_slow_is_waited_for_however_long(
    start_engine: StartEngine, sql: Cursor
) -> None:
    engine = start_engine(grace_ms=0)
    engine.create(TopicSpec("t"))
    sql.execute("BEGIN")
    sql.execute(INSERT, ("slow",))
    engine.append("t", [Entry(b"quick")])
    reader = ConsumerSpec("c")
    drain(engine, reader)  # notices the hole; the fence waits for the owner, and gives up
    with engine.context.fencing.session() as session, pytest.raises(stable_ids.Fault) as refused:
        stable_ids.close_hole(session, "t", Priority.MIDDLE, stable_ids.Hole(1, 1))
    assert refused.value.code == 1205
    assert drain(engine, reader) == []
    sql.execute("COMMIT")
    assert wait_for(lambda: drain(engine, reader)) == [b"slow", b"quick"]


def test_a_producer_later_than_the_fence_takes_another_id(
    start_engine: StartEngine, sql: Cursor, server: MariaDb, database: str
) -> None:
    engine = start_engine()
    engine.create(TopicSpec("t"))
    with engine.context.fencing.session() as session:
        assert stable_ids.close_hole(session, "t", Priority.MIDDLE, stable_ids.Hole(1, 2)) == 2
    # As a server does that reserved the ids 1 and 2 before, and inserts only now.
    with pytest.raises(pymysql.err.IntegrityError) as refused:
        sql.execute("INSERT INTO msg_p_t_middle (id,body,token) VALUES (1,'late','p')")
    assert refused.value.args[0] == 1062
    assert engine.append("t", [Entry(b"late")]) == [3]
    assert drain(engine, ConsumerSpec("c")) == [b"late"]


def test_an_append_overtaken_by_a_fence_is_repeated_with_new_ids(
    engine: MySqlEngine, sql: Cursor, server: MariaDb, database: str
) -> None:
    """Its ids are reserved, and its second row is held up before it is there: the fence wins."""
    sql.execute(
        "CREATE TRIGGER hold_up BEFORE INSERT ON msg_p_t_middle FOR EACH ROW "
        "SET @held = IF(NEW.body = 'b', GET_LOCK('gate', 30), 0)"
    )
    ids: list[int] = []
    with server.connect(database) as other, other.cursor() as keeper:
        keeper.execute("SELECT GET_LOCK('gate', 0)")
        producer = threading.Thread(
            target=lambda: ids.extend(engine.append("t", [Entry(b"a"), Entry(b"b")]))
        )
        producer.start()

        def is_held_up() -> bool:
            sql.execute("SELECT COUNT(*) FROM information_schema.processlist "
                        "WHERE state='User lock'")  # fmt: skip
            return sql.fetchone() == (1,)

        wait_for(is_held_up)
        with engine.context.fencing.session() as session:
            assert stable_ids.close_hole(session, "t", Priority.MIDDLE, stable_ids.Hole(2, 2)) == 1
        keeper.execute("SELECT RELEASE_LOCK('gate')")
        producer.join(20)
    assert ids == [3, 4]
    reader = ConsumerSpec("c")
    got: list[bytes] = []
    wait_for(lambda: got.extend(drain(engine, reader)) or len(got) >= 2)
    assert got == [b"a", b"b"]


def test_two_engines_advance_at_once(start_engine: StartEngine, sql: Cursor) -> None:
    engines = [start_engine(grace_ms=0) for _ in range(2)]
    engines[0].create(TopicSpec("t"))
    for number in range(20):
        sql.execute("BEGIN")
        sql.execute(INSERT, ("gone",))
        sql.execute("ROLLBACK")
        engines[number % 2].append("t", [Entry(b"%d" % number)])
    got: list[bytes] = []
    lock = threading.Lock()

    def consume(engine: MySqlEngine, token: str) -> None:
        def some() -> bool:
            found = drain(engine, ConsumerSpec(token, "g"))
            with lock:
                got.extend(found)
                return len(got) >= 20

        wait_for(some, timeout=20)

    threads = [
        threading.Thread(target=consume, args=(one, f"c{number}"))
        for number, one in enumerate(engines)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(got, key=int) == [b"%d" % number for number in range(20)]
    assert engines[0].bounds("t")[Priority.MIDDLE].stable == 40


@pytest.mark.parametrize("mode", ["auto", "counter"])
def test_eight_producers_lose_nothing(start_engine: StartEngine, mode: str) -> None:
    engine = start_engine(writers=8, grace_ms=0)
    engine.create(TopicSpec("t", options={"append_mode": mode}))
    each = 60

    def produce(number: int) -> None:
        for step in range(each):
            engine.append("t", [Entry(b"%d.%d" % (number, step))])

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    got: list[bytes] = []

    def all_there() -> bool:
        got.extend(drain(engine, ConsumerSpec("c")))
        return len(got) >= 8 * each

    wait_for(all_there, timeout=30)
    for one in threads:
        one.join()
    assert len(got) == len(set(got)) == 8 * each
    if mode == "counter":
        assert engine.bounds("t")[Priority.MIDDLE].stable == 8 * each


def test_counted_appends_of_several_statements_are_one_transaction(
    start_engine: StartEngine,
) -> None:
    engine = start_engine()
    engine.create(TopicSpec("t", options={"append_mode": "counter"}))
    engine.append("t", [Entry(b"a")])
    assert engine.append("t", [Entry(b"x")] * 2500) == list(range(2, 2502))
    assert engine.append("t", [Entry(b"z")]) == [2502]
    assert len(engine.read("t", ConsumerSpec("c"), 5000).messages) == 2502


def test_a_hole_too_large_for_a_crash_is_reported_not_filled(
    engine: MySqlEngine, sql: Cursor, caplog: pytest.LogCaptureFixture
) -> None:
    sql.execute("INSERT INTO msg_p_t_middle (id,body,token) VALUES (5000000,'far','p')")
    assert drain(engine, ConsumerSpec("c")) == []
    wait_for(lambda: "more than any crash explains" in caplog.text)
    sql.execute("SELECT COUNT(*) FROM msg_p_t_middle")
    assert sql.fetchone() == (1,)


def test_tombstones_do_not_make_a_batch_smaller(start_engine: StartEngine, sql: Cursor) -> None:
    engine = start_engine(grace_ms=0)
    engine.create(TopicSpec("t"))
    for number in range(30):
        sql.execute("BEGIN")
        sql.execute(INSERT, ("gone",))
        sql.execute("ROLLBACK")
        engine.append("t", [Entry(b"%d" % number)])

    def stable() -> bool:
        return engine.bounds("t")[Priority.MIDDLE].stable == 60

    wait_for(stable)
    for reader in (ConsumerSpec("c"), ConsumerSpec("c", "g")):
        assert len(engine.read("t", reader, 20).messages) == 20


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_is_full_however_many_dead_ids_are_before_it(
    engine: MySqlEngine, sql: Cursor, group: str | None, batch: int
) -> None:
    """A producer that rolled back hundreds of rows, and one that does so after every message."""
    for dead in (300, 40, 40, 40):
        sql.execute("BEGIN")
        sql.executemany(INSERT, [("dead",)] * dead)
        sql.execute("ROLLBACK")
        engine.append("t", [Entry(b"x", Priority.HIGH), Entry(b"x")])
    wait_for(lambda: engine.bounds("t")[Priority.MIDDLE].stable == 424)
    with engine.context.readers.session() as session:
        session.run("UPDATE msg_p_t_high SET flags=1")  # nothing but dead ids

    reader = ConsumerSpec("c", group)
    sizes = []
    for _ in range(4):
        taken = engine.read("t", reader, batch)
        engine.commit("t", reader, taken.claim)
        sizes.append(len(taken.messages))

    assert sizes == ([1, 1, 1, 1] if batch == 1 else [3, 1, 0, 0])
    assert engine.lag("t", reader)[1].messages == 0


def test_a_process_that_was_forked_closes_holes_itself(engine: MySqlEngine, sql: Cursor) -> None:
    """The thread that does it stayed with the parent."""
    sql.execute("BEGIN")
    sql.execute(INSERT, ("dead",))
    sql.execute("ROLLBACK")
    engine.append("t", [Entry(b"x")])
    wait_for(lambda: drain(engine, ConsumerSpec("parent")))
    sql.execute("BEGIN")
    sql.execute(INSERT, ("dead",))
    sql.execute("ROLLBACK")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: that is the point
        child = os.fork()
    if not child:
        try:
            engine.append("t", [Entry(b"y")])
            wait_for(lambda: len(engine.read("t", ConsumerSpec("child"), 5).messages) == 2)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_row_deleted_by_hand_stops_no_reader(
    engine: MySqlEngine, sql: Cursor, caplog: pytest.LogCaptureFixture
) -> None:
    engine.append("t", [Entry(b"%d" % number) for number in range(4)])
    engine.bounds("t")
    sql.execute("DELETE FROM msg_p_t_middle WHERE id=2")
    taken = engine.read("t", ConsumerSpec("c", "g"), 10)
    assert [one.body for one in taken.messages] == [b"0", b"2", b"3"]
    assert "1 of the ids 1 to 4 are missing" in caplog.text


# -- looks ---------------------------------------------------------------------------------------


def put(sql: Cursor, ids: Iterable[int]) -> None:
    sql.execute("DELETE FROM msg_p_t_middle")
    if values := ",".join(f"({number},'','p')" for number in ids):
        sql.execute(f"INSERT INTO msg_p_t_middle (id,body,token) VALUES {values}")


def look_from(engine: MySqlEngine, stable: int) -> stable_ids.HoleScan:
    topic = engine.context.catalog.get("t")
    with engine.context.readers.session() as session:
        found = stable_ids.look(session, topic, {Priority.MIDDLE: stable_ids.Bounds(stable, 1)})
    return found[Priority.MIDDLE]


def expected(stable: int, ids: set[int]) -> tuple[int, stable_ids.Hole | None]:
    """What nobody can doubt, one id after the other."""
    end = stable
    while end + 1 in ids:
        end += 1
    behind = [number for number in ids if number > end]
    return end, stable_ids.Hole(end + 1, min(behind) - 1) if behind else None


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 5), st.sets(st.integers(1, 25)))
@example(0, set())
@example(3, {1, 2, 3})
@example(0, {2})
@example(0, {1, 2, 20})  # the hole is larger than the window
def test_a_scan_for_the_stable_id_ends_at_the_first_hole(
    engine: MySqlEngine, sql: Cursor, monkeypatch: pytest.MonkeyPatch, stable: int, later: set[int]
) -> None:
    """However the ids lie in the window, looks one after the other come to the first hole."""
    monkeypatch.setattr(stable_ids, "WINDOW", 8)
    ids = set(range(1, stable + 1)) | later
    put(sql, ids)
    seen = look_from(engine, stable)
    while seen.is_full:
        assert seen.bounds.stable > stable or stable + 1 not in ids
        seen = look_from(engine, seen.bounds.stable)
    assert (seen.bounds.stable, seen.hole) == expected(stable, ids)


def test_a_hole_that_stays_costs_a_read_next_to_nothing(engine: MySqlEngine, sql: Cursor) -> None:
    """Every read looks: with thousands of messages behind a hole it must not touch them."""
    put(sql, range(2, 4002))

    def rows_touched(session: DbConnection) -> int:
        rows = session.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in rows)

    topic = engine.context.catalog.get("t")
    with engine.context.readers.session() as session:
        before = rows_touched(session)
        seen = stable_ids.look(session, topic, {Priority.MIDDLE: stable_ids.Bounds(0, 1)})[
            Priority.MIDDLE
        ]
        cost = rows_touched(session) - before
    assert seen.hole == stable_ids.Hole(1, 1)
    assert cost < 50, f"{cost} rows"


def test_whatever_goes_wrong_with_a_hole_the_next_is_closed(
    engine: MySqlEngine, sql: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers raise more than they promise."""
    close_hole = stable_ids.close_hole
    calls: list[object] = []

    def fail_once(*args: object) -> int:
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("a packet that makes no sense")
        return close_hole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(stable_ids, "close_hole", fail_once)
    sql.execute("BEGIN")
    sql.execute(INSERT, ("dead",))
    sql.execute("ROLLBACK")
    engine.append("t", [Entry(b"x")])
    assert wait_for(lambda: drain(engine, ConsumerSpec("c"))) == [b"x"]


def test_a_counter_passes_rows_that_lie_in_its_way(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("counted", options={"append_mode": "counter"}))
    engine.append("counted", [Entry(b"1")])
    sql.execute(
        "INSERT INTO msg_p_counted_middle (id,body,token) "
        "VALUES (2,'2','x'),(4,'4','x'),(9,'9','x')"
    )
    assert engine.append("counted", [Entry(b"5"), Entry(b"6"), Entry(b"7")]) == [5, 6, 7]
    assert engine.append("counted", [Entry(b"8"), Entry(b"10")]) == [10, 11]
    taken = engine.read("counted", ConsumerSpec("c"), 20)
    assert [one.id for one in taken.messages] == [1, 2, 4, 5, 6, 7, 9, 10, 11]
