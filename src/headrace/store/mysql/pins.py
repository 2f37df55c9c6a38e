"""Pins of external readers, such as Spark, which read ranges of ids by themselves.

The row is committed before anything is read. Retention respects it, and its commit makes sure
that everything the reader plans with is on the disk of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql import tables
from headrace.store.mysql.context import MySqlContext
from headrace.store.sql.connection import DbConnection

PREFIX: Final = "spark."
_MARK: Final = "pin"


class EnginePins:
    """Pins of queries that read ranges of ids by themselves."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context

    def pin(
        self,
        topic: str,
        query: str,
        start: Mapping[Priority, int],
        end: Mapping[Priority, int],
        token: str = "query",
    ) -> None:
        """The query is about to read the ids above ``start`` up to ``end``: committed before this
        returns. Retention keeps everything above ``start``. Call it again, with what is next,
        when they are done."""
        check_token(query, "query")
        check_token(token)
        self._context.catalog.get(topic)
        work = partial(pin, topic=topic, query=query, token=token, start=start, end=end)
        self._context.run(topic, work, repeatable=True)

    def pinned(self, topic: str, query: str, token: str = "query") -> dict[Priority, int]:
        """The last id that the query has read, by priority; empty without a pin."""
        work = partial(pinned, topic=topic, query=query, token=token)
        return self._context.run(topic, work, repeatable=True)

    def unpin(self, topic: str, query: str, token: str = "query") -> None:
        """The query does not read any more."""
        work = partial(unpin, topic=topic, query=query, token=token)
        self._context.run(topic, work, repeatable=True)


def pin(
    session: DbConnection,
    topic: str,
    query: str,
    token: str,
    start: Mapping[Priority, int],
    end: Mapping[Priority, int],
) -> None:
    """The query is about to read the ids above ``start`` up to ``end``."""
    values: list[object] = []
    for priority in BY_URGENCY:
        values += [
            PREFIX + query,
            token,
            priority.label,
            start.get(priority, 0),
            end.get(priority, 0),
            _MARK,
        ]
    with session.transaction():
        session.run(
            f"INSERT INTO {tables.cursors(topic)} (group_id,token,priority,`offset`,claimed,owner) "
            f"VALUES {','.join(['(%s,%s,%s,%s,%s,%s)'] * len(BY_URGENCY))} "
            "ON DUPLICATE KEY UPDATE `offset`=VALUES(`offset`), claimed=VALUES(claimed), "
            "owner=VALUES(owner)",
            values,
        )


def pinned(session: DbConnection, topic: str, query: str, token: str) -> dict[Priority, int]:
    """What the query has done with, by priority."""
    rows = session.rows(
        f"SELECT priority,`offset` FROM {tables.cursors(topic)} "
        "WHERE group_key=%s AND token=%s AND owner=%s",
        (PREFIX + query, token, _MARK),
    )
    return {Priority[str(label).upper()]: int(str(at)) for label, at in rows}


def unpin(session: DbConnection, topic: str, query: str, token: str) -> None:
    """The query will not read any more."""
    session.run(
        f"DELETE FROM {tables.cursors(topic)} WHERE group_key=%s AND token=%s AND owner=%s",
        (PREFIX + query, token, _MARK),
    )
