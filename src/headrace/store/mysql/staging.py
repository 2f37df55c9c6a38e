"""Rows staged by many writers, then appended in one transaction, once per (query, batch).

For writers that repeat themselves after a crash, such as a Spark sink: that a batch was published
is a row of the same transaction as its messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import tables
from headrace.store.mysql.appends import next_ids, pass_rows
from headrace.store.mysql.message_rows import COLUMNS, Values
from headrace.store.sql.connection import DbConnection

_WORD: Final = "CHARACTER SET ascii COLLATE ascii_bin"
_TABLES: Final = (
    f"""CREATE TABLE IF NOT EXISTS `msg_published` (
  query VARCHAR(255) {_WORD} NOT NULL, batch BIGINT NOT NULL,
  published_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (query, batch)) ENGINE=InnoDB""",
    f"""CREATE TABLE IF NOT EXISTS `msg_staged` (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  query VARCHAR(255) {_WORD} NOT NULL, batch BIGINT NOT NULL, attempt VARCHAR(100) {_WORD} NOT NULL,
  topic VARCHAR(40) {_WORD} NOT NULL, priority ENUM('low','middle','high') NOT NULL,
  body MEDIUMBLOB NOT NULL, source_ip VARBINARY(16) NULL, token VARCHAR(255) {_WORD} NOT NULL,
  ref_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  queue_id SMALLINT NOT NULL, props MEDIUMBLOB NULL,
  staged_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  KEY ix_batch (query, batch, attempt, priority, id)) ENGINE=InnoDB""",
)
_KEEP_STAGED_H: Final = 24
_PORTION: Final = 1023  # 1 + 2 + 4 + ... + 512


def make_tables(session: DbConnection) -> None:
    """Table of staged batches; created with the first one."""
    for statement in _TABLES:
        session.run(statement)


def stage(
    session: DbConnection,
    topic: str,
    query: str,
    batch: int,
    attempt: str,
    rows: Sequence[tuple[Priority, Values]],
) -> None:
    places = ",".join(["(%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s)"] * len(rows))
    values: list[object] = []
    for priority, row in rows:
        values += [query, batch, attempt, topic, priority.label, *row]
    session.run(
        f"INSERT INTO `msg_staged` (query,batch,attempt,topic,priority,{COLUMNS}) VALUES {places}",
        values,
    )


def publish(
    session: DbConnection, topic: str, query: str, batch: int, attempts: Sequence[str]
) -> bool:
    """Append what these attempts staged; False when the batch was published before."""
    with session.transaction():
        new = session.run(
            "INSERT IGNORE INTO `msg_published` (query,batch) VALUES (%s,%s)", (query, batch)
        )
        if new and attempts:
            is_counted = session.rows(
                "SELECT 1 FROM `msg_topic` WHERE topic=%s AND append_mode='counter'", (topic,)
            )
            append = _append_counted if is_counted else _append
            for priority in BY_URGENCY:
                append(session, topic, priority, query, batch, attempts)
        session.run("DELETE FROM `msg_staged` WHERE query=%s AND batch=%s", (query, batch))
    return bool(new)


def _append(
    session: DbConnection,
    topic: str,
    priority: Priority,
    query: str,
    batch: int,
    attempts: Sequence[str],
) -> None:
    """In portions: a statement of unknown length takes 1, 2, 4 ... ids at a time and leaves what
    it does not use as holes, which have to be fenced. Whole portions leave none."""
    which, values = _chosen(topic, priority, query, batch, attempts)
    last = 0
    while True:
        [(upto,)] = session.rows(
            f"SELECT MAX(id) FROM (SELECT id FROM `msg_staged` WHERE {which} AND id>%s "
            f"ORDER BY id LIMIT {_PORTION}) AS `found`",
            (*values, last),
        )
        if upto is None:
            return
        session.run(
            f"INSERT INTO {tables.messages(topic, priority)} ({COLUMNS}) SELECT {COLUMNS} "
            f"FROM `msg_staged` WHERE {which} AND id>%s AND id<=%s ORDER BY id",
            (*values, last, upto),
        )
        last = upto


def _append_counted(
    session: DbConnection,
    topic: str,
    priority: Priority,
    query: str,
    batch: int,
    attempts: Sequence[str],
) -> None:
    """With ids of the topic's counter: others would collide with what is appended next."""
    which, values = _chosen(topic, priority, query, batch, attempts)
    [(count,)] = session.rows(f"SELECT COUNT(*) FROM `msg_staged` WHERE {which}", values)
    if not count:
        return
    pass_rows(session, topic, priority, count)
    first = next_ids(session, topic, priority, count)
    session.run(
        f"INSERT INTO {tables.messages(topic, priority)} (id,{COLUMNS}) "
        f"SELECT %s+ROW_NUMBER() OVER (ORDER BY id),{COLUMNS} FROM `msg_staged` WHERE {which}",
        (first - 1, *values),
    )


def _chosen(
    topic: str, priority: Priority, query: str, batch: int, attempts: Sequence[str]
) -> tuple[str, tuple[object, ...]]:
    chosen = ",".join(["%s"] * len(attempts))
    which = f"query=%s AND batch=%s AND attempt IN ({chosen}) AND topic=%s AND priority=%s"
    return which, (query, batch, *attempts, topic, priority.label)


def discard(session: DbConnection, query: str, batch: int) -> None:
    """Forget what was staged, and what others have left behind long ago."""
    session.run("DELETE FROM `msg_staged` WHERE query=%s AND batch=%s", (query, batch))
    session.run(
        "DELETE FROM `msg_staged` WHERE staged_at < NOW(3) - INTERVAL %s HOUR LIMIT 10000",
        (_KEEP_STAGED_H,),
    )
