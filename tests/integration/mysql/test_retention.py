"""What retention removes, and what it leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pymysql
import pytest

from headrace.model.retention import Retention
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import retention
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, StoredMessage, TopicSpec
from support.mariadb import MariaDb

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]


@pytest.fixture
def engine(start_engine: StartEngine) -> MySqlEngine:
    return start_engine()


def fill(
    engine: MySqlEngine, count: int, priority: Priority = Priority.MIDDLE, size: int = 1
) -> None:
    engine.append("t", [Entry(b"x" * size, priority) for _ in range(count)])


def age(sql: Cursor, up_to: int, priority: str = "middle") -> None:
    """The first of them were stored a day ago."""
    sql.execute(
        f"UPDATE msg_p_t_{priority} SET created_at=NOW(3)-INTERVAL 1 DAY WHERE id<=%s", (up_to,)
    )


def rest(sql: Cursor, priority: str = "middle") -> int:
    sql.execute(f"SELECT COUNT(*) FROM msg_p_t_{priority}")
    [count] = sql.fetchone() or (0,)
    return int(count)


def read_all(engine: MySqlEngine, reader: ConsumerSpec) -> list[int]:
    taken = engine.read("t", reader, 1000)
    engine.commit("t", reader, taken.claim)
    messages: tuple[StoredMessage, ...] = taken.messages
    return [one.id for one in messages]


def test_by_age(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 20)
    age(sql, 12)
    engine.housekeeper.round()
    assert rest(sql) == 8
    assert engine.describe("t").parts[Priority.MIDDLE].first == 13
    assert read_all(engine, ConsumerSpec("c")) == list(range(13, 21))


def test_by_size_the_oldest_of_all_lanes_go_first(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("t", retention=Retention(size=1000)))
    fill(engine, 8, Priority.HIGH, 100)
    age(sql, 8, "high")
    fill(engine, 8, Priority.LOW, 100)
    engine.housekeeper.round()
    assert (rest(sql, "high"), rest(sql, "low")) == (2, 8)


def test_by_size_over_many_chunks(
    engine: MySqlEngine, sql: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FEW", 100)
    monkeypatch.setattr(retention, "MANY", 5)
    engine.create(TopicSpec("t", retention=Retention(size=10_000)))
    for _ in range(3):
        fill(engine, 1000, Priority.MIDDLE, 10)
        engine.housekeeper.round()
        assert 1000 - 2 * retention.CHUNK <= rest(sql) <= 1000


def test_nothing_goes_without_a_policy(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("t"))
    fill(engine, 5)
    age(sql, 5)
    engine.housekeeper.round()
    assert rest(sql) == 5


@pytest.mark.parametrize("group", [None, "g"])
def test_a_consumer_overtaken_by_retention_continues_with_a_warning(
    engine: MySqlEngine, sql: Cursor, caplog: pytest.LogCaptureFixture, group: str | None
) -> None:
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 20)
    reader = ConsumerSpec("c", group)
    engine.commit("t", reader, engine.read("t", reader, 2).claim)
    age(sql, 12)
    engine.housekeeper.round()
    assert engine.lag("t", reader)[1].messages == 8
    assert read_all(engine, reader) == list(range(13, 21))
    assert "removed by retention" in caplog.text


@pytest.mark.parametrize("group", [None, "g"])
def test_a_consumer_overtaken_by_retention_is_logged_once(
    engine: MySqlEngine, sql: Cursor, caplog: pytest.LogCaptureFixture, group: str | None
) -> None:
    """Who waits for messages looks several times a second."""
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 20)
    reader = ConsumerSpec("c", group)
    engine.commit("t", reader, engine.read("t", reader, 2).claim)
    age(sql, 20)
    engine.housekeeper.round()
    for _ in range(5):
        assert read_all(engine, reader) == []
    assert caplog.text.count("removed by retention") == 1
    fill(engine, 1)
    assert read_all(engine, reader) == [21]


def test_a_topic_may_keep_what_is_unread(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000), options={"keep_unread": True}))
    fill(engine, 20)
    age(sql, 20)
    member, alone = ConsumerSpec("m", "g"), ConsumerSpec("c")
    engine.commit("t", member, engine.read("t", member, 10).claim)
    engine.commit("t", alone, engine.read("t", alone, 15).claim)
    out = engine.read("t", member, 8)  # claimed, not done
    engine.housekeeper.round()
    assert rest(sql) == 10
    engine.nack("t", member, out.claim, [(Priority.MIDDLE, 12)], 60_000)
    engine.commit("t", member, out.claim)
    engine.housekeeper.round()
    assert rest(sql) == 9  # 12 is to be tried again


def test_what_an_outside_reader_has_pinned_stays(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 20)
    age(sql, 20)
    ends = {priority: bounds.stable for priority, bounds in engine.bounds("t").items()}
    engine.pins.pin("t", "query", {Priority.MIDDLE: 5}, ends)
    engine.housekeeper.round()
    assert rest(sql) == 15
    [group] = engine.groups("t")
    assert (group.group, group.lag[1].messages) == ("spark.query", 15)
    engine.pins.pin("t", "query", {priority: ends[priority] for priority in BY_URGENCY}, ends)
    engine.housekeeper.round()
    assert rest(sql) == 0
    engine.pins.unpin("t", "query")
    assert engine.groups("t") == []


def test_ids_go_on_after_everything_was_removed(
    engine: MySqlEngine, sql: Cursor, server: MariaDb
) -> None:
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 5)
    age(sql, 5)
    engine.housekeeper.round()
    assert rest(sql) == 0
    server.kill()
    server.start()
    assert engine.append("t", [Entry(b"next")]) == [6]
    assert read_all(engine, ConsumerSpec("c")) == [6]


# -- partitions ----------------------------------------------------------------------------------


def test_partitions_are_made_ahead_and_dropped(engine: MySqlEngine, sql: Cursor) -> None:
    engine.create(
        TopicSpec("t", retention=Retention(ms=3_600_000), options={"partition_rows": 1000})
    )
    fill(engine, 3500)
    engine.housekeeper.round()
    with engine.context.readers.session() as session:
        bounds = retention.bounds_of(session, "t", Priority.MIDDLE)
    assert bounds[0] == 1001 and bounds[-1] >= 5501
    age(sql, 2100)
    engine.housekeeper.round()
    with engine.context.readers.session() as session:
        assert retention.bounds_of(session, "t", Priority.MIDDLE)[0] == 3001
    assert rest(sql) == 1500  # from 2001 on: the rest of a partition goes with it
    assert read_all(engine, ConsumerSpec("c"))[0] == 2101


def test_an_open_reader_delays_the_drop_and_nothing_else(
    engine: MySqlEngine, sql: Cursor, server: MariaDb, database: str
) -> None:
    engine.create(
        TopicSpec("t", retention=Retention(ms=3_600_000), options={"partition_rows": 1000})
    )
    fill(engine, 1500)
    engine.housekeeper.round()
    age(sql, 1200)
    with server.connect(database) as other, other.cursor() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM msg_p_t_middle")
        engine.housekeeper.round()
        assert rest(sql) == 1500
        assert read_all(engine, ConsumerSpec("c"))[0] == 1201
        reader.execute("COMMIT")
    engine.housekeeper.round()
    assert rest(sql) == 500


def test_one_connection_is_enough(start_engine: StartEngine, sql: Cursor) -> None:
    """Whoever holds a connection waits for no second one."""
    engine = start_engine(readers=1, writers=1)
    engine.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(engine, 5)
    age(sql, 3)
    keeper = threading.Thread(target=engine.housekeeper.round, daemon=True)
    keeper.start()
    keeper.join(20)
    assert not keeper.is_alive()
    assert rest(sql) == 2
    readers = [
        threading.Thread(
            target=engine.read, args=("t", ConsumerSpec(f"c{number}", "g"), 1), daemon=True
        )
        for number in range(8)
    ]
    for one in readers:
        one.start()
    for one in readers:
        one.join(20)
        assert not one.is_alive()
    assert engine.lag("t", ConsumerSpec("c", "g"))[1].claimed == 2


# -- one of several nodes ------------------------------------------------------------------------


def test_one_node_does_the_housekeeping_and_another_takes_over(
    start_engine: StartEngine, sql: Cursor
) -> None:
    first, second = start_engine(), start_engine()
    first.create(TopicSpec("t", retention=Retention(ms=3_600_000)))
    fill(first, 5)
    age(sql, 5)
    first.housekeeper.round()
    assert rest(sql) == 0
    fill(first, 5)
    age(sql, 10)
    second.housekeeper.round()  # the lease is the other's
    assert rest(sql) == 5
    sql.execute("SELECT node_id FROM msg_node ORDER BY node_id")
    assert [node for (node,) in sql.fetchall()] == sorted(
        [first.housekeeper.node.id, second.housekeeper.node.id]
    )
    sql.execute("UPDATE msg_lease SET lease_until_ms=1")
    second.housekeeper.round()
    assert rest(sql) == 0
    sql.execute("SELECT epoch FROM msg_lease WHERE name='housekeeping.t'")
    assert sql.fetchall() == ((2,),)
