"""Tables of the original layout, with its comma and its ENUM corrected, become topics."""

from __future__ import annotations

from collections.abc import Callable

import pymysql
import pytest

from headrace.errors import BadTopicValue, EngineUnavailable, NoSuchTopic, TopicConflict
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import adopt
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import ConsumerSpec, Entry
from support.mariadb import MariaDb

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]
MESSAGES = """CREATE TABLE `msg_p_old_{}` (
  `id` INT(11) NOT NULL AUTO_INCREMENT,
  `body` BLOB NOT NULL,
  `source_ip` INT(11) NOT NULL,
  `token` VARCHAR(50) NOT NULL,
  `ref_key` VARCHAR(50) NULL DEFAULT NULL,
  PRIMARY KEY (`id`)) COLLATE='utf8_general_ci' ENGINE=InnoDB AUTO_INCREMENT=3"""
PROGRESS = """CREATE TABLE `msg_c_old` (
  `id` INT(11) NOT NULL AUTO_INCREMENT,
  `group_id` VARCHAR(50) NULL DEFAULT NULL,
  `offset` INT(11) NOT NULL,
  `token` VARCHAR(50) NOT NULL,
  `priority` ENUM('low','{}','high') NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE INDEX `token` (`token`)) COLLATE='utf8_general_ci' ENGINE=InnoDB"""


def make_old(sql: Cursor, middle: str = "middle") -> None:
    for priority in ("high", "middle", "low"):
        sql.execute(MESSAGES.format(priority))
    sql.execute(PROGRESS.format(middle))
    # 10.0.0.1, and 192.168.0.1 as a signed number; the ids 5 and 6 were rolled back.
    sql.execute(
        "INSERT INTO msg_p_old_high (id,body,source_ip,token,ref_key) VALUES "
        "(3,'a',167772161,'p','order-1'),(4,'b',-1062731775,'p',NULL),(7,'c',0,'p','ключ')"
    )
    sql.execute(
        "INSERT INTO msg_p_old_middle (body,source_ip,token) VALUES ('m',1,'p'),('n',1,'p')"
    )
    sql.execute(
        "INSERT INTO msg_c_old (group_id,`offset`,token,priority) VALUES (NULL,4,'alone','high'),"
        f"('g',3,'m1','high'),('g',4,'m2','high'),('g',3,'m3','{middle}')"
    )


@pytest.mark.parametrize("middle", ["middle", "midddle"])
def test_messages_ids_and_offsets_stay(start_engine: StartEngine, sql: Cursor, middle: str) -> None:
    make_old(sql, middle)
    engine = start_engine()
    counts = engine.adopt("old")  # of messages, not of the tombstones at 5 and 6
    assert counts == {Priority.HIGH: 3, Priority.MIDDLE: 2, Priority.LOW: 0}
    high = engine.read("old", ConsumerSpec("new"), 3).messages
    assert [(one.id, one.body, one.source_ip, one.key) for one in high] == [
        (3, b"a", "10.0.0.1", "order-1"),
        (4, b"b", "192.168.0.1", None),
        (7, b"c", None, "ключ"),
    ]
    alone = engine.read("old", ConsumerSpec("alone"), 10).messages
    assert [(one.priority, one.id) for one in alone] == [
        (Priority.HIGH, 7), (Priority.MIDDLE, 3), (Priority.MIDDLE, 4),
    ]  # fmt: skip
    group = engine.read("old", ConsumerSpec("m9", "g"), 10).messages
    assert [(one.priority, one.id) for one in group] == [(Priority.HIGH, 7), (Priority.MIDDLE, 4)]
    assert engine.append("old", [Entry(bytes(70_000), Priority.HIGH, source_ip="::1")]) == [8]
    assert engine.append("old", [Entry(b"x", Priority.LOW)]) == [3]


def test_tables_that_were_corrected_by_hand_are_adopted(
    start_engine: StartEngine, sql: Cursor
) -> None:
    """Unsigned addresses, an index of more columns, no group written as an empty one."""
    make_old(sql)
    sql.execute("UPDATE msg_p_old_high SET source_ip=0 WHERE id=4")
    sql.execute("ALTER TABLE msg_p_old_high MODIFY source_ip INT UNSIGNED NOT NULL")
    sql.execute("UPDATE msg_p_old_high SET source_ip=3232235521 WHERE id=4")
    sql.execute("ALTER TABLE msg_c_old DROP INDEX `token`, "
                "ADD UNIQUE KEY mine (group_id, token, priority)")  # fmt: skip
    sql.execute("UPDATE msg_c_old SET group_id='' WHERE token='alone'")
    engine = start_engine()
    engine.adopt("old")
    assert [one.source_ip for one in engine.read("old", ConsumerSpec("new"), 2).messages] == [
        "10.0.0.1", "192.168.0.1",
    ]  # fmt: skip
    assert engine.read("old", ConsumerSpec("alone"), 10).messages[0].id == 7
    sql.execute("SHOW INDEX FROM msg_c_old WHERE Key_name='mine'")
    assert sql.fetchall() == ()


def test_an_adoption_that_was_interrupted_is_finished(
    start_engine: StartEngine, sql: Cursor
) -> None:
    make_old(sql)
    sql.execute("ALTER TABLE msg_p_old_high CHANGE source_ip old_ip INT NULL, "
                "ADD COLUMN source_ip VARBINARY(16) NULL")  # fmt: skip
    sql.execute("ALTER TABLE msg_c_old ADD COLUMN queue_id SMALLINT NOT NULL DEFAULT 0")
    engine = start_engine()
    engine.adopt("old")
    assert engine.read("old", ConsumerSpec("new"), 1).messages[0].source_ip == "10.0.0.1"
    with pytest.raises(TopicConflict, match="already"):
        engine.adopt("old")


def test_tables_that_are_missing_or_do_not_fit(start_engine: StartEngine, sql: Cursor) -> None:
    engine = start_engine()
    with pytest.raises(NoSuchTopic, match="nothing was changed"):
        engine.adopt("old")
    make_old(sql)
    sql.execute("UPDATE msg_p_old_high SET token='zwei Worte' WHERE id=3")
    with pytest.raises(BadTopicValue, match="nothing was changed"):
        engine.adopt("old")
    sql.execute("UPDATE msg_p_old_high SET token='p' WHERE id=3")
    sql.execute("UPDATE msg_c_old SET group_id='группа' WHERE group_id='g'")
    with pytest.raises(BadTopicValue, match=r"group_id .* nothing was changed"):
        engine.adopt("old")
    sql.execute("SHOW COLUMNS FROM msg_p_old_high LIKE 'flags'")
    assert sql.fetchall() == ()


def test_spark_reads_adopted_tables(
    start_engine: StartEngine, sql: Cursor, server: MariaDb, database: str
) -> None:
    pytest.importorskip("connectorx")
    from headrace.spark.backends.mysql import MySqlBackend
    from headrace.spark.options import read_options
    from headrace.spark.task_plan import TaskRange

    make_old(sql)
    start_engine().adopt("old")
    backend = MySqlBackend(read_options({"url": server.url(database), "topic": "old"}))
    source = backend.sources()["old"]
    found = [
        row
        for partition, there in source.ranges.items()
        for batch in backend.batches(
            TaskRange("old", partition, there.first, there.end), source.uuid
        )
        for row in batch.to_pylist()
    ]
    shown = {(row["priority"], row["offset"]): row for row in found}
    assert {place: row["body"] for place, row in shown.items()} == {
        ("high", 3): b"a",
        ("high", 4): b"b",
        ("high", 7): b"c",
        ("middle", 3): b"m",
        ("middle", 4): b"n",
    }
    assert shown["high", 3]["key"] == "order-1"
    assert dict(shown["high", 4]["properties"]) == {"token": "p", "source_ip": "192.168.0.1"}
    assert shown["high", 7]["key"] == "ключ"


def test_an_adoption_that_lost_its_lease_stops(
    engine: MySqlEngine, sql: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(sql)
    upgrade = adopt._upgrade_cursors

    def lose(session: DbConnection, table: str) -> None:
        upgrade(session, table)
        sql.execute("UPDATE msg_lease SET owner='other' WHERE name='schema'")

    monkeypatch.setattr(adopt, "_upgrade_cursors", lose)
    with pytest.raises(EngineUnavailable, match="taken over"):
        engine.adopt("old")
    sql.execute("SELECT COUNT(*) FROM msg_topic WHERE topic='old'")
    assert sql.fetchall() == ((0,),)
