"""Bulk reads: ranges of ids, and the statements that select them, for readers such as Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from headrace.model.readable_range import ReadableRange
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.context import MySqlContext
from headrace.store.mysql.groups.offset_reset import positions_at
from headrace.store.mysql.message_rows import TOMBSTONE
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import RangeQuery, TopicRanges
from headrace.urls import format_hosts

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
