"""Tables of the original layout become a topic, in place: messages, ids and offsets stay.

DDL is not transactional, so each step looks at what is there and does only what is missing: an
adoption that was interrupted is finished by the next. Producers and consumers of the old kind must
be stopped before.
"""

from __future__ import annotations

import uuid
from itertools import chain, islice
from typing import Final

from headrace.errors import BadTopicValue, NoSuchTopic, TopicConflict
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.store.mysql import tables
from headrace.store.mysql.catalog import make_states
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.message_rows import TOMBSTONE
from headrace.store.mysql.schema import SchemaLease
from headrace.store.sql.connection import DbConnection

_WORD: Final = "CHARACTER SET ascii COLLATE ascii_bin"
_LANES: Final = "ENUM('low','middle','high')"
_BATCH: Final = 5000
MAX_HOLES: Final = 5_000_000
_TYPO: Final = "midddle"
_MESSAGE_COLUMNS: Final = (
    "queue_id SMALLINT NOT NULL DEFAULT 0",
    "flags TINYINT UNSIGNED NOT NULL DEFAULT 0",
    "props MEDIUMBLOB NULL",
    "created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
)


def adopt(session: DbConnection, lease: SchemaLease, topic: str) -> None:
    """Make the topic out of its old tables. Each step checks that the lease is still ours."""
    if session.rows("SELECT 1 FROM `msg_topic` WHERE topic=%s AND state='ready'", (topic,)):
        raise TopicConflict(f"topic {topic!r} is in the catalogue already; nothing was changed")
    _check(session, topic)
    for priority in BY_URGENCY:
        _upgrade_messages(session, lease, tables.messages(topic, priority))
    lease.check(session)
    _upgrade_cursors(session, tables.cursors(topic))
    for statement in (tables.claims_table(topic), tables.retries_table(topic)):
        lease.check(session)
        session.run(statement)
    ends = {
        priority.label: _close_holes(session, lease, tables.messages(topic, priority))
        for priority in BY_URGENCY
    }
    _move_offsets(session, lease, topic, {label: stable for label, (stable, _) in ends.items()})
    with session.transaction():
        lease.check(session)
        make_states(session, topic, ends)
        session.run("DELETE FROM `msg_topic` WHERE topic=%s", (topic,))
        session.run(
            "INSERT INTO `msg_topic` (topic,uuid,state) VALUES (%s,%s,'ready')",
            (topic, str(uuid.uuid4())),
        )


# -- before anything is changed ----------------------------------------------------------------


def _check(session: DbConnection, topic: str) -> None:
    """All of the original tables and columns, and nothing in them that does not fit."""
    wanted = {tables.messages(topic, priority): _SEED_MESSAGES for priority in BY_URGENCY}
    wanted[tables.cursors(topic)] = _SEED_CURSORS
    for table, its in wanted.items():
        found = _columns(session, table)
        if not found:
            raise NoSuchTopic(f"no table {table}; nothing was changed")
        if missing := sorted(its - set(found)):
            raise BadTopicValue(
                f"table {table} has no column {missing[0]!r}: not the original layout; "
                "nothing was changed"
            )
        for column in sorted({"token", "group_id"} & its):
            if session.rows(f"SELECT 1 FROM {table} WHERE {column} RLIKE '[^!-~]' LIMIT 1"):
                raise BadTopicValue(
                    f"table {table} has values of {column} with spaces or characters beyond "
                    "ASCII: change them first; nothing was changed"
                )


_SEED_MESSAGES: Final = {"id", "body", "token", "ref_key"}
_SEED_CURSORS: Final = {"id", "group_id", "offset", "token", "priority"}


def _columns(session: DbConnection, table: str) -> dict[str, str]:
    rows = session.rows(
        "SELECT COLUMN_NAME,COLUMN_TYPE FROM information_schema.COLUMNS "
        "WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=%s",
        (table.strip("`"),),
    )
    return {str(name): str(kind).lower() for name, kind in rows}


# -- messages ----------------------------------------------------------------------------------


def _upgrade_messages(session: DbConnection, lease: SchemaLease, table: str) -> None:
    found = _columns(session, table)
    changes = [f"ADD COLUMN {one}" for one in _MESSAGE_COLUMNS if one.split()[0] not in found]
    if not found["id"].startswith("bigint"):
        changes.append("MODIFY id BIGINT NOT NULL AUTO_INCREMENT")
    if found["body"] != "mediumblob":
        changes.append("MODIFY body MEDIUMBLOB NOT NULL")
    if found["token"] != "varchar(255)":
        changes.append(f"MODIFY token VARCHAR(255) {_WORD} NOT NULL")
    if found["ref_key"] != "varchar(255)":
        changes.append("MODIFY ref_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL")
    if "old_ip" not in found and found.get("source_ip", "int").startswith("int"):
        changes.append("CHANGE source_ip old_ip BIGINT NULL")  # some were made unsigned
        changes.append("ADD COLUMN source_ip VARBINARY(16) NULL AFTER body")
    if changes:
        lease.check(session)
        session.run(f"ALTER TABLE {table} {', '.join(changes)}")
    if "old_ip" in _columns(session, table):
        _convert_addresses(session, lease, table)
        lease.check(session)
        session.run(f"ALTER TABLE {table} DROP COLUMN old_ip")


def _convert_addresses(session: DbConnection, lease: SchemaLease, table: str) -> None:
    """Numbers to bytes, batch by batch. Addresses from 128.0.0.0 on may be stored below zero."""
    at = 0
    while True:
        [(end,)] = session.rows(
            f"SELECT MAX(id) FROM (SELECT id FROM {table} WHERE id>%s ORDER BY id "
            f"LIMIT {_BATCH}) AS part",
            (at,),
        )
        if end is None:
            return
        lease.check(session)
        session.run(
            f"UPDATE {table} SET source_ip=UNHEX(LPAD(HEX(IF(old_ip<0,old_ip+4294967296,old_ip)),"
            "8,'0')) WHERE id>%s AND id<=%s AND old_ip IS NOT NULL AND old_ip<>0",
            (at, end),
        )
        at = end


def _close_holes(session: DbConnection, lease: SchemaLease, table: str) -> tuple[int, int]:
    """Stable and lowest id. No producer is running, so every missing id is dead: tombstones."""
    [(low, high)] = session.rows(f"SELECT MIN(id),MAX(id) FROM {table}")
    [(following,)] = session.rows(
        "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() "
        "AND TABLE_NAME=%s",
        (table.strip("`"),),
    )
    if low is None:
        return int(following or 1) - 1, int(following or 1)
    [(there,)] = session.rows(f"SELECT COUNT(*) FROM {table}")
    if high - low + 1 - there > MAX_HOLES:
        raise BadTopicValue(
            f"table {table} lacks {high - low + 1 - there:,} ids between its first and last "
            f"message, more than {MAX_HOLES:,}: delete the messages before the largest hole first"
        )
    if there < high - low + 1:
        holes = session.rows(
            f"SELECT id+1,following-1 FROM (SELECT id,LEAD(id) OVER (ORDER BY id) AS following "
            f"FROM {table}) AS pairs WHERE following>id+1"
        )
        missing = chain.from_iterable(range(first, last + 1) for first, last in holes)
        while portion := list(islice(missing, _BATCH)):
            lease.check(session)
            values = ",".join(f"({number},'','',{TOMBSTONE})" for number in portion)
            session.run(f"INSERT IGNORE INTO {table} (id,body,token,flags) VALUES {values}")
    return int(high), int(low)


# -- progress ----------------------------------------------------------------------------------


def _upgrade_cursors(session: DbConnection, table: str) -> None:
    found = _columns(session, table)
    if _TYPO in found["priority"]:
        session.run(
            f"ALTER TABLE {table} MODIFY priority ENUM('low','{_TYPO}','middle','high') NOT NULL"
        )
        session.run(f"UPDATE {table} SET priority='middle' WHERE priority='{_TYPO}'")
        session.run(f"ALTER TABLE {table} MODIFY priority {_LANES} NOT NULL")
    changes = []
    if not found["offset"].startswith("bigint"):
        changes += [
            "MODIFY id BIGINT NOT NULL AUTO_INCREMENT",
            f"MODIFY group_id VARCHAR(255) {_WORD} NULL",
            "MODIFY `offset` BIGINT NOT NULL DEFAULT 0",
            f"MODIFY token VARCHAR(255) {_WORD} NOT NULL DEFAULT ''",
        ]
    changes += [f"ADD COLUMN {one}" for one in tables.CURSOR_COLUMNS if one.split()[0] not in found]
    keys = {
        str(name)
        for (name,) in session.rows(
            "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS "
            "WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=%s AND NON_UNIQUE=0",
            (table.strip("`"),),
        )
    }
    # That of the token alone, or what others have made of it: rows of queues would collide.
    changes += [
        f"DROP INDEX `{name.replace('`', '``')}`"
        for name in sorted(keys - {"PRIMARY", "uq_cursor"})
    ]
    if "uq_cursor" not in keys:
        changes.append(f"ADD {tables.CURSOR_KEY}")
    if changes:
        session.run(f"ALTER TABLE {table} {', '.join(changes)}")


def _move_offsets(
    session: DbConnection, lease: SchemaLease, topic: str, ends: dict[str, int]
) -> None:
    """Members become one row of their group, at the largest offset of any of them: up to there
    every message was given to some member. Single consumers keep theirs."""
    table = tables.cursors(topic)
    with session.transaction():
        lease.check(session)
        session.run(f"UPDATE {table} SET group_id=NULL WHERE group_id=''")  # alone, as others say
        for group, label, position in session.rows(
            f"SELECT group_id,priority,MAX(`offset`) FROM {table} WHERE group_id IS NOT NULL "
            "GROUP BY group_id,priority"
        ):
            session.run(
                f"INSERT INTO {table} (group_id,token,priority,`offset`,claimed,epoch) "
                "VALUES (%s,'',%s,%s,%s,%s) ON DUPLICATE KEY UPDATE "
                "claimed=GREATEST(claimed,VALUES(claimed)), "
                "`offset`=GREATEST(`offset`,VALUES(`offset`))",
                (group, label, position, position, group_rows.new_epoch()),
            )
        session.run(f"DELETE FROM {table} WHERE group_id IS NOT NULL AND token<>''")
        # An offset beyond the last message would hide the next ones.
        for label, stable in ends.items():
            session.run(
                f"UPDATE {table} SET `offset`=LEAST(`offset`,%s), claimed=LEAST(claimed,%s) "
                "WHERE priority=%s",
                (stable, stable, label),
            )
