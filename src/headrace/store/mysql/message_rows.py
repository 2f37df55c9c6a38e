"""Messages as rows and back. What has no column of its own is JSON in `props`, which people and
other programs can read in SQL. Statements are small enough that a read never holds more than some
megabytes."""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from functools import lru_cache
from typing import Final

from headrace.errors import BadTopicValue, BodyTooLarge
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.model.topics.source_address import address_text, packed_address
from headrace.store.sql.connection import DbConnection, Row
from headrace.store.topics.types import Entry, StoredMessage

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 16 << 20  # of bodies in one read; a single larger one still comes
_FIRST: Final = 16  # rows to look at before the size of the messages is known
_LOOK_AGAIN_S: Final = 0.02
_BODY, _FLAGS = 1, 6
MAX_KEY: Final = 255
MAX_PROPS: Final = 1 << 20
COLUMNS: Final = "body,source_ip,token,ref_key,queue_id,props"
SELECTED: Final = (
    "id,body,source_ip,token,ref_key,queue_id,flags,props,"
    "CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED)"
)
TOMBSTONE: Final = 1
Values = tuple[bytes, bytes | None, str, str | None, int, bytes | None]
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_checked = lru_cache(1000)(check_token)


def values_of(entry: Entry, queue: int, max_body: int, own: bytes | None = None) -> Values:
    """The row of an entry, in the order of COLUMNS; deliberate errors for what cannot be stored.
    ``own``: the address of an entry that has none."""
    if len(entry.body) > max_body:
        raise BodyTooLarge(
            f"a body of {len(entry.body):,} bytes is refused: at most {max_body:,} (16 MiB less "
            "one, or less when the server's max_allowed_packet is small); nothing was stored"
        )
    if entry.token:
        _checked(entry.token)
    if entry.key is not None and len(entry.key) > MAX_KEY:
        raise BadTopicValue(f"a key of {len(entry.key)} characters is refused: at most {MAX_KEY}")
    return (
        bytes(entry.body),
        own if entry.source_ip is None else packed_address(entry.source_ip),
        entry.token,
        entry.key,
        queue,
        _props(entry),
    )


def queue_of(key: str, queues: int) -> int:
    """Messages of one key go to one queue."""
    return zlib.crc32(key.encode()) % queues


def _props(entry: Entry) -> bytes | None:
    own = {"tags": entry.tags, "message_id": entry.message_id, "born": entry.born}
    found: dict[str, object] = {name: one for name, one in own.items() if one is not None}
    if entry.properties:
        found["properties"] = dict(entry.properties)
    if not found:
        return None
    try:
        packed = _json(found).encode()
    except (TypeError, ValueError) as error:
        raise BadTopicValue(f"tags, ids and properties must be text: {error}") from None
    if len(packed) > MAX_PROPS:
        raise BadTopicValue(f"the properties take {len(packed):,} bytes: at most {MAX_PROPS:,}")
    return packed


def message_of(row: Row, priority: Priority, attempts: int) -> StoredMessage:
    """The message of a row of SELECTED."""
    number, body, address, token, key, queue, _flags, props, time_ms = row
    found = json.loads(props) if props else {}
    return StoredMessage(
        id=number,
        priority=priority,
        partition_index=queue,
        time=time_ms,
        body=body,
        token=token,
        key=key,
        tags=found.get("tags"),
        source_ip=None if address is None else address_text(address),
        message_id=found.get("message_id"),
        born=found.get("born"),
        properties=found.get("properties") or {},
        attempts=attempts,
    )


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
        list[Row]
    ):  # fmt: skip
        """At most ``limit`` messages with ids above ``position`` up to ``end``."""
        found: list[Row] = []
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
    ) -> tuple[list[Row], int]:
        """The rows of a range, tombstones included, and the id up to which it was read."""
        found: list[Row] = []
        while start <= end and not self.is_full:
            last = min(end, start + self._sizes.rows(table, self.left) - 1)
            rows = self._complete(session, table, start, last)
            self._count(table, rows)
            found += rows
            start = last + 1
        return found, start - 1

    def _complete(self, session: DbConnection, table: str, start: int, last: int) -> list[Row]:
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

    def _count(self, table: str, rows: list[Row]) -> None:
        sizes = [len(row[_BODY]) for row in rows if row[_FLAGS] != TOMBSTONE]
        if sizes:
            self._sizes.saw(table, max(sizes))
            self.left -= sum(sizes)


def is_message(row: Row) -> bool:
    return bool(row[_FLAGS] != TOMBSTONE)
