"""Ranges of ids for outside readers, and batches published once."""

from __future__ import annotations

import pytest

from headrace import topics
from headrace.errors import NoSuchTopic
from headrace.topics.topic_tables import Entry, Priority, TopicTables
from support.mariadb import MariaDb


@pytest.fixture
def url(server: MariaDb, database: str) -> str:
    return server.url(database)


def read(server: MariaDb, database: str, sql: str) -> list[tuple[object, ...]]:
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_a_range_is_read_by_its_ids(server: MariaDb, database: str, url: str) -> None:
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders")
        producer = store.producer("orders", token="p")
        for n in range(5):
            producer.append(b"%d" % n, priority="high", ref_key=f"k{n}")
        high = tables.look("orders").ranges[Priority.HIGH]
        assert (high.first, high.end) == (1, 6)
        sql = tables.bulk.query("orders", Priority.HIGH, 2, 4, ["offset", "body", "key"]).rows
        assert read(server, database, sql) == [(2, b"1", "k1"), (3, b"2", "k2")]


def test_a_staged_batch_is_published_once_and_invisible_before(url: str) -> None:
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders")
        consumer = store.consumer("orders", token="c")
        entries = [Entry(b"%d" % n, Priority.LOW if n % 2 else Priority.HIGH) for n in range(10)]
        assert tables.stage("orders", "q", 0, "a", entries[:5]) == 5
        assert tables.stage("orders", "q", 0, "b", entries[5:]) == 5
        assert tables.stage("orders", "q", 0, "failed", entries) == 10
        assert len(consumer.read(100)) == 0
        assert tables.publish("orders", "q", 0, ["a", "b"])
        batch = consumer.read(100, wait=5.0)
        assert sorted(one.body for one in batch) == [entry.body for entry in entries]
        consumer.commit(batch)
        # As a driver does that was killed before it noted the batch.
        tables.stage("orders", "q", 0, "again", entries)
        assert not tables.publish("orders", "q", 0, ["again"])
        assert len(consumer.read(100)) == 0
        assert tables.publish("orders", "q", 1, [])
        tables.discard("q", 2)


def test_a_pin_keeps_what_retention_would_remove(url: str) -> None:
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders")
        store.producer("orders", token="p").append(b"x", priority="middle")
        tables.pin("orders", "query", {Priority.MIDDLE: 1})
        assert "spark.query" in [one.group for one in store.groups("orders")]


def test_a_topic_that_is_not_there(url: str) -> None:
    with TopicTables(url) as tables, pytest.raises(NoSuchTopic):
        tables.look("nothing")


def test_a_batch_takes_its_ids_from_the_counter_of_a_topic_that_has_one(url: str) -> None:
    """Otherwise what is appended next collides with it, again and again."""
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders", append_mode="counter")
        producer = store.producer("orders", token="p")
        producer.append(b"before")
        entries = [Entry(b"%d" % n) for n in range(2500)]
        for batch in range(2):
            tables.stage("orders", "q", batch, "a", entries)
            assert tables.publish("orders", "q", batch, ["a"])
        assert producer.append(b"after") == 5002
        found = [one.body for one in store.consumer("orders", token="c").read(6000)]
        bodies = [entry.body for entry in entries]
        assert found == [b"before", *bodies, *bodies, b"after"]


def test_a_large_batch_leaves_few_ids_unused(url: str) -> None:
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders")
        entries = [Entry(b"%d" % n) for n in range(3000)]
        tables.stage("orders", "q", 0, "a", entries)
        assert tables.publish("orders", "q", 0, ["a"])
        consumer = store.consumer("orders", token="c")
        found: list[bytes] = []
        highest = 0
        while batch := consumer.read(1000, wait=5.0):
            found += [one.body for one in batch]
            highest = max(one.id for one in batch)
            consumer.commit(batch)
        assert found == [entry.body for entry in entries]
        assert highest == 3000


def test_a_topic_recreated_while_it_is_read_raises_an_error(url: str) -> None:
    pytest.importorskip("connectorx")
    from headrace.spark.backends.mysql import MySqlBackend
    from headrace.spark.errors import SourceChanged
    from headrace.spark.options import read_options
    from headrace.spark.task_plan import TaskRange

    with topics.open(url) as store:
        store.create("orders")
        store.producer("orders", token="p").append(b"old", priority="middle")
        backend = MySqlBackend(read_options({"url": url, "topic": "orders"}))
        uuid = backend.sources()["orders"].uuid
        planned = TaskRange("orders", int(Priority.MIDDLE), 1, 2)
        assert [batch.num_rows for batch in backend.batches(planned, uuid)] == [1]
        store.delete("orders")
        store.create("orders")
        store.producer("orders", token="p").append(b"new", priority="middle")
        with pytest.raises(SourceChanged, match="created again while it was read"):
            list(backend.batches(planned, uuid))


def leave_gaps(server: MariaDb, database: str, total: int, every: int) -> set[bytes]:
    """Inserts of another program, some of them rolled back; what was committed."""
    kept = set()
    table = "INSERT INTO `msg_p_orders_middle` (body,token) VALUES (%s,'p')"
    with server.connect(database) as connection, connection.cursor() as cursor:
        for n in range(total):
            cursor.execute("BEGIN")
            cursor.execute(table, (b"%d" % n,))
            cursor.execute("ROLLBACK" if n % every == 0 else "COMMIT")
            if n % every:
                kept.add(b"%d" % n)
    return kept


def rows_of(server: MariaDb, database: str, tables: TopicTables) -> set[object]:
    its = tables.look("orders").ranges[Priority.MIDDLE]
    query = tables.bulk.query("orders", Priority.MIDDLE, its.first, its.end, ["body"])
    return {row[0] for row in read(server, database, query.rows)}


def test_one_look_reaches_every_committed_message_behind_gaps(
    server: MariaDb, database: str, url: str
) -> None:
    """Nothing else has the database open: only this look can put tombstones into the gaps."""
    with topics.open(url) as store:
        store.create("orders")
    kept = leave_gaps(server, database, 200, 5)
    with TopicTables(url) as tables:
        assert rows_of(server, database, tables) == kept
        assert tables.look("orders").gap == ""


def test_an_open_transaction_below_committed_messages_is_reported(
    server: MariaDb, database: str, url: str
) -> None:
    with topics.open(url) as store, TopicTables(url) as tables:
        store.create("orders")
        insert = "INSERT INTO `msg_p_orders_middle` (body,token) VALUES ('x','p')"
        with server.connect(database) as slow, slow.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(insert)
            store.producer("orders", token="p").append(b"behind")
            found = tables.look("orders")
            assert found.ranges[Priority.MIDDLE].end == 1
            assert "ids 1 to 1 are missing" in found.gap
            assert "still open" in found.gap
            cursor.execute("COMMIT")
        found = tables.look("orders")
        assert (found.gap, found.ranges[Priority.MIDDLE].end) == ("", 3)


def test_a_reader_that_may_not_write_stops_before_a_gap_and_says_so(
    server: MariaDb, database: str, url: str
) -> None:
    with topics.open(url) as store:
        store.create("orders")
        store.producer("orders", token="p").append_many([b"0", b"1"])
    leave_gaps(server, database, 2, 2)
    user = f"reader_{database}"
    with server.connect(None) as root, root.cursor() as cursor:
        cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret'")
        cursor.execute(f"GRANT SELECT ON {database}.* TO {user}@'%'")
    login = f"{user}:secret@"
    reader = "mysql://" + login + url.rpartition("@")[2]
    with TopicTables(reader) as tables:
        found = tables.look("orders", patience=30.0)
        assert found.ranges[Priority.MIDDLE].end == 3
        assert "this user may not fence them" in found.gap
    with TopicTables(url) as tables:  # one that may write closes the gap for all
        assert tables.look("orders").gap == ""
    with TopicTables(reader) as tables:
        found = tables.look("orders")
        assert (found.ranges[Priority.MIDDLE].end, found.gap) == (5, "")
