"""A topic engine of one's own: topics in an SQLite file.

One process uses the file at a time. Registered in pyproject.toml as

    [project.entry-points."headrace.topic_engines"]
    sqlite = "sqlite_engine:open_engine"

Then `topics.open("sqlite:///var/lib/topics.db")` and `headrace serve --engine files=sqlite:///...`
use it.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple

from headrace.topics import engines as api

TABLES = """
CREATE TABLE IF NOT EXISTS topic (
  uuid TEXT PRIMARY KEY, name TEXT, queues INT, retention TEXT, created_at INT);
CREATE TABLE IF NOT EXISTS part (
  topic TEXT, priority INT, queue INT, first INT, next INT, PRIMARY KEY (topic, priority, queue));
CREATE TABLE IF NOT EXISTS message (
  topic TEXT, priority INT, queue INT, offset INT, time INT, content BLOB,
  PRIMARY KEY (topic, priority, queue, offset)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursor (
  topic TEXT, name TEXT, token TEXT, priority INT, queue INT, floor INT, ranges TEXT, epoch INT,
  PRIMARY KEY (topic, name, token, priority, queue));
CREATE TABLE IF NOT EXISTS retry (
  topic TEXT, name TEXT, priority INT, queue INT, offset INT, state TEXT,
  PRIMARY KEY (topic, name, priority, queue, offset));
"""


class SqliteTopic(api.LocalTopic):
    """The messages of one topic."""

    def __init__(
        self, db: sqlite3.Connection, spec: api.TopicSpec, uuid: str, created: int
    ) -> None:
        super().__init__(spec, uuid, created)
        self._db = db

    def append(self, entries: Sequence[api.Entry], now: int) -> list[int]:
        last = self._db.execute("SELECT MAX(time) FROM message WHERE topic=?", (self.uuid,))
        now = max(now, last.fetchone()[0] or 0)
        ids = []
        for entry, content in zip(entries, api.encode_entries(entries), strict=True):
            partition = self.partition_for(entry)
            where = (self.uuid, *map(int, partition))
            [(offset,)] = self._db.execute(
                "INSERT INTO part VALUES (?,?,?,0,1) "
                "ON CONFLICT DO UPDATE SET next=next+1 RETURNING next-1",
                where,
            ).fetchall()
            row = (*where, offset, now, content)
            self._db.execute("INSERT INTO message VALUES (?,?,?,?,?,?)", row)
            ids.append(api.message_id(partition.index, offset))
        return ids

    def expire(self, retention: api.Retention, now: int) -> None:
        rows = self._db.execute(
            "SELECT priority,queue,offset,time,LENGTH(content) FROM message WHERE topic=? "
            "ORDER BY time,offset",
            (self.uuid,),
        ).fetchall()
        kept = sum(row[4] for row in rows)
        for priority, queue, offset, time, size in rows:
            if not retention.ends(stored_at=time, now=now, kept=kept):
                return
            kept -= size
            where = (self.uuid, priority, queue)
            which = "topic=? AND priority=? AND queue=?"
            self._db.execute(f"DELETE FROM message WHERE {which} AND offset=?", (*where, offset))
            self._db.execute(f"UPDATE part SET first=? WHERE {which}", (offset + 1, *where))

    def bounds(self) -> dict[api.Partition, api.Bound]:
        rows = self._db.execute("SELECT * FROM part WHERE topic=?", (self.uuid,))
        return {
            api.Partition(api.Priority(row[1]), row[2]): api.Bound(row[3], row[4]) for row in rows
        }

    def load(
        self, partition: api.Partition, start: int, stop: int, max_bytes: int
    ) -> tuple[list[api.LoadedEntries], int]:
        rows = self._select(partition, "time,offset,content", "offset>=? AND offset<?", start, stop)
        return [
            api.LoadedEntries(time, [offset], [content]) for time, offset, content in rows
        ], stop

    def offset_at(self, partition: api.Partition, time_ms: int) -> int:
        [(offset,)] = self._select(partition, "MIN(offset)", "time>=?", time_ms)
        return self.bounds()[partition].end if offset is None else offset

    def time_at(self, partition: api.Partition, offset: int) -> int | None:
        rows = list(self._select(partition, "time", "offset=?", offset))
        return rows[0][0] if rows else None

    def _select(
        self, partition: api.Partition, what: str, where: str, *values: int
    ) -> Iterator[tuple]:
        yield from self._db.execute(
            f"SELECT {what} FROM message WHERE topic=? AND priority=? AND queue=? AND {where}",
            (self.uuid, *map(int, partition), *values),
        )


class SqliteProgress(api.ProgressStore):
    """What the readers of one topic have done."""

    def __init__(self, db: sqlite3.Connection, uuid: str) -> None:
        self._db = db
        self._uuid = uuid

    def cursor(
        self, name: api.ReaderKey, partition: api.Partition, cursor: api.PartitionCursor
    ) -> None:
        row = (self._uuid, *name, *map(int, partition))
        row += (cursor.floor, json.dumps(cursor.ranges), cursor.epoch)
        self._db.execute("REPLACE INTO cursor VALUES (?,?,?,?,?,?,?,?)", row)

    def retry(self, group: str, place: api.Place, retry: api.Retry | None) -> None:
        partition, offset = place
        row = (self._uuid, group, *map(int, partition), offset)
        if retry is None:
            sql = "DELETE FROM retry WHERE (topic,name,priority,queue,offset)=(?,?,?,?,?)"
            self._db.execute(sql, row)
        else:
            state = json.dumps(astuple(retry))
            self._db.execute("REPLACE INTO retry VALUES (?,?,?,?,?,?)", (*row, state))

    def forget(self, name: api.ReaderKey) -> None:
        self._db.execute("DELETE FROM cursor WHERE (topic,name,token)=(?,?,?)", (self._uuid, *name))
        self._db.execute("DELETE FROM retry WHERE (topic,name)=(?,?)", (self._uuid, name.group))


class SqliteEngine(api.LocalEngine):
    """Topics of one file."""

    def __init__(self, path: str) -> None:
        super().__init__("sqlite")
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + TABLES)
        for number, name, queues, kept, created in self._db.execute("SELECT * FROM topic"):
            spec = api.TopicSpec(name, queues, api.parse_retention(kept) if kept else None)
            self._restore(SqliteTopic(self._db, spec, number, created))

    def _restore(self, topic: SqliteTopic) -> None:
        readers = self.add(topic, SqliteProgress(self._db, topic.uuid))
        for row in self._db.execute("SELECT * FROM cursor WHERE topic=?", (topic.uuid,)):
            _, name, token, priority, queue, floor, ranges, epoch = row
            spans = tuple((low, high) for low, high in json.loads(ranges))
            partition = api.Partition(api.Priority(priority), queue)
            cursor = api.PartitionCursor(floor, spans, epoch)
            readers.restore_cursor(api.ReaderKey(name, token), partition, cursor)
        for row in self._db.execute("SELECT * FROM retry WHERE topic=?", (topic.uuid,)):
            _, name, priority, queue, offset, state = row
            place = (api.Partition(api.Priority(priority), queue), offset)
            readers.restore_retry(name, place, api.Retry(*json.loads(state)))
        readers.suspect()

    @contextmanager
    def changes(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def now_ms(self) -> int:
        return api.wall_ms()

    def make(self, spec: api.TopicSpec) -> tuple[api.LocalTopic, api.ProgressStore]:
        topic = SqliteTopic(self._db, spec, str(uuid.uuid4()), api.wall_ms())
        kept = None if spec.retention is None else str(spec.retention)
        row = (topic.uuid, spec.name, spec.queues, kept, topic.created_at)
        self._db.execute("INSERT INTO topic VALUES (?,?,?,?,?)", row)
        return topic, SqliteProgress(self._db, topic.uuid)

    def drop(self, topic: api.LocalTopic) -> None:
        self._db.execute("DELETE FROM topic WHERE uuid=?", (topic.uuid,))
        for table in ("part", "message", "cursor", "retry"):
            self._db.execute(f"DELETE FROM {table} WHERE topic=?", (topic.uuid,))

    def close(self) -> None:
        super().close()
        self._db.close()


def open_engine(url: str) -> SqliteEngine:
    """`sqlite:///path/to/file.db`."""
    return SqliteEngine(url.partition("://")[2])
