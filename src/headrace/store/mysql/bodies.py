"""Bodies of ranges, in statements small enough that a read never holds more than some megabytes."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final

from headrace.store.mysql.message_rows import SELECTED, TOMBSTONE
from headrace.store.sql.connection import DbConnection

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 16 << 20  # of bodies in one read; a single larger one still comes
_FIRST: Final = 16  # rows to look at before the size of the messages is known
_LOOK_AGAIN_S: Final = 0.02
_BODY, _FLAGS = 1, 6


class BodySizes:
    """How large the messages of each table are, as far as seen: decides how many to ask for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._largest: dict[str, int] = {}

    def rows(self, table: str, budget: int) -> int:
        largest = self._largest.get(table)
        return _FIRST if largest is None else max(1, budget // max(1, largest))

    def saw(self, table: str, largest: int) -> None:
        with self._lock:
            self._largest[table] = max(largest, self._largest.get(table, 0) * 7 // 8, 1)


class BodyReader:
    """Reads rows of one batch; stops when the bodies become too many bytes."""

    def __init__(self, sizes: BodySizes) -> None:
        self._sizes = sizes
        self.left = MAX_BYTES

    @property
    def is_full(self) -> bool:
        return self.left <= 0

    def after(self, session: DbConnection, table: str, position: int, end: int, limit: int) -> (
        list[tuple[Any, ...]]
    ):  # fmt: skip
        """At most ``limit`` messages with ids above ``position`` up to ``end``."""
        found: list[tuple[Any, ...]] = []
        while len(found) < limit and not self.is_full:
            ask = min(limit - len(found), self._sizes.rows(table, self.left))
            rows = session.rows(
                f"SELECT {SELECTED} FROM {table} WHERE id>%s AND id<=%s AND flags=0 "
                f"ORDER BY id LIMIT {ask}",
                (position, end),
            )
            self._count(table, rows)
            found += rows
            if len(rows) < ask:
                break
            position = rows[-1][0]
        return found

    def range(
        self, session: DbConnection, table: str, start: int, end: int
    ) -> tuple[list[tuple[Any, ...]], int]:
        """The rows of a range, tombstones included, and the id up to which it was read."""
        found: list[tuple[Any, ...]] = []
        while start <= end and not self.is_full:
            last = min(end, start + self._sizes.rows(table, self.left) - 1)
            rows = self._complete(session, table, start, last)
            self._count(table, rows)
            found += rows
            start = last + 1
        return found, start - 1

    def _complete(
        self, session: DbConnection, table: str, start: int, last: int
    ) -> list[tuple[Any, ...]]:
        """Every id up to the stable one has a row, unless it was deleted by hand."""
        sql = f"SELECT {SELECTED} FROM {table} WHERE id BETWEEN %s AND %s ORDER BY id"
        rows = session.rows(sql, (start, last))
        if len(rows) <= last - start:
            time.sleep(_LOOK_AGAIN_S)
            rows = session.rows(sql, (start, last))
        if len(rows) <= last - start:
            logger.warning(
                "%s: %s of the ids %s to %s are missing; they were deleted by hand or by retention",
                table, last - start + 1 - len(rows), start, last,
            )  # fmt: skip
        return rows

    def _count(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        sizes = [len(row[_BODY]) for row in rows if row[_FLAGS] != TOMBSTONE]
        if sizes:
            self._sizes.saw(table, max(sizes))
            self.left -= sum(sizes)


def is_message(row: tuple[Any, ...]) -> bool:
    return bool(row[_FLAGS] != TOMBSTONE)
