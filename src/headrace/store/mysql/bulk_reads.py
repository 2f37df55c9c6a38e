"""What readers outside the engine, such as Spark, need: ranges of ids, the statements that select
them, and pins.

The row of a pin is committed before anything is read. Retention respects it, and its commit makes
sure that everything the reader plans with is on the disk of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final
from urllib.parse import quote

from headrace.model.readable_range import ReadableRange
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.model.topics.names import check_token
from headrace.store.mysql import tables
from headrace.store.mysql.context import MySqlContext
from headrace.store.mysql.groups.offset_reset import positions_at
from headrace.store.mysql.message_rows import TOMBSTONE
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import RangeQuery, TopicPin, TopicRanges
from headrace.urls import format_hosts

PREFIX: Final = "spark."
_TOKEN: Final = "query"
_MARK: Final = "pin"
# What the columns of a bulk read are in SQL; Arrow's types follow from them.
SELECTED: Final[Mapping[str, str]] = {
    "offset": "id",
    "timestamp": "CAST(UNIX_TIMESTAMP(created_at)*1000000 AS SIGNED)",
    "key": "ref_key",
    "token": "token",
    "source_ip": "HEX(source_ip)",
    "props": "props",
    "body": "body",
}


class BulkRanges:
    """Ranges of ids of topics."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context

    def ranges(self, topic: str, time_ms: int | None, patience_s: float) -> TopicRanges:
        """Everything that is committed now, unless a gap is left after ``patience_s``."""
        found = self._context.catalog.load(topic)

        def work(session: DbConnection) -> TopicRanges:
            bounds, gap = self._context.complete(session, found, patience_s)
            at = {} if time_ms is None else positions_at(session, topic, bounds, time_ms)
            first = {priority: position + 1 for priority, position in at.items()}
            ranges = {
                priority: ReadableRange(its.low, its.stable + 1, its.low)
                for priority, its in bounds.items()
            }
            return TopicRanges(found.uuid, ranges, first, gap)

        return self._context.run(topic, work, repeatable=True)

    def query(
        self, topic: str, priority: Priority, start: int, end: int, names: Iterable[str]
    ) -> RangeQuery:
        """Reads ids start .. end - 1: always the same rows."""
        columns = ", ".join(f"{SELECTED[name]} AS `{name}`" for name in names)
        rows = (
            f"SELECT {columns} FROM {tables.messages(topic, priority)} "
            f"WHERE id >= {start:d} AND id < {end:d} AND flags <> {TOMBSTONE} ORDER BY id"
        )
        uuid = f"SELECT uuid FROM `msg_topic` WHERE topic='{topic}' AND state='ready'"
        return RangeQuery(self._url(), rows, uuid)

    def _url(self) -> str:
        one = self._context.settings
        login = f"{quote(one.user, safe='')}:{quote(one.password, safe='')}"
        host = format_hosts([self._context.hosts.current])  # connectorx knows one
        return f"mysql://{login}@{host}/{quote(one.database, safe='')}"


class EnginePins:
    """Pins of queries that read ranges of ids by themselves."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context

    def pin(
        self, topic: str, query: str, start: Mapping[Priority, int], end: Mapping[Priority, int]
    ) -> None:
        """The query is about to read the ids above ``start`` up to ``end``: committed before this
        returns. Retention keeps everything above ``start``. Call it again, with what is next,
        when they are done."""
        check_token(query, "query")
        self._context.catalog.get(topic)
        values: list[object] = []
        for priority in BY_URGENCY:
            positions = (start.get(priority, 0), end.get(priority, 0))
            values += [PREFIX + query, _TOKEN, priority.label, *positions, _MARK]

        def work(session: DbConnection) -> None:
            with session.transaction():
                session.run(
                    f"INSERT INTO {tables.cursors(topic)} "
                    "(group_id,token,priority,`offset`,claimed,owner) "
                    f"VALUES {','.join(['(%s,%s,%s,%s,%s,%s)'] * len(BY_URGENCY))} "
                    "ON DUPLICATE KEY UPDATE `offset`=VALUES(`offset`), claimed=VALUES(claimed), "
                    "owner=VALUES(owner)",
                    values,
                )

        self._context.run(topic, work, repeatable=True)

    def unpin(self, topic: str, query: str) -> None:
        """The query does not read any more."""
        sql = f"DELETE FROM {tables.cursors(topic)} WHERE group_key=%s AND token=%s AND owner=%s"
        values = (PREFIX + query, _TOKEN, _MARK)
        self._context.run(topic, partial(DbConnection.run, sql=sql, values=values), repeatable=True)

    def pins(self, names: Sequence[str] | None = None) -> list[TopicPin]:
        """The pins of all topics, or of these."""
        if names is None:
            names = [topic.name for topic in self._context.catalog.all()]
        return [pin for name in names for pin in self._of_topic(name)]

    def _of_topic(self, topic: str) -> list[TopicPin]:
        self._context.catalog.get(topic)
        sql = (
            "SELECT group_id,priority,`offset`,CAST(UNIX_TIMESTAMP(updated_at)*1000 AS SIGNED) "
            f"FROM {tables.cursors(topic)} WHERE token=%s AND owner=%s ORDER BY group_id"
        )
        select = partial(DbConnection.rows, sql=sql, values=(_TOKEN, _MARK))
        rows = self._context.run(topic, select, repeatable=True)
        found = ((query, list(its)) for query, its in groupby(rows, itemgetter(0)))
        return [
            TopicPin(
                topic,
                query.removeprefix(PREFIX),
                {priority_named(label): at for _, label, at, _ in its},
                max(time for *_, time in its),
            )
            for query, its in found
        ]
