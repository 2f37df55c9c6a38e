"""Group commit of appends: rows that arrive while a statement is running go into the next one.
Each caller returns after the commit.

A thread that finds no leader becomes the leader: it sends the waiting rows, its own included, and
hands over to the next waiting thread. A single publisher never waits; many share round trips.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.errors import BrokerError, EngineUnavailable, StoreError
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import tables
from headrace.store.mysql.catalog import ID_STEPS, CatalogTopic
from headrace.store.mysql.context import MySqlContext
from headrace.store.mysql.message_rows import COLUMNS, TOMBSTONE, Values, queue_of, values_of
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.sql.pool import Pool
from headrace.store.topics.types import Entry

MAX_ROWS: Final = 1000
MAX_BYTES: Final = 1 << 20
UNKNOWN: Final = (
    "the messages may have been stored: appending them again may store them twice, so give each "
    "a message_id by which consumers recognise it"
)
_ROW_BYTES: Final = 64  # quotes, commas and numbers of a row
_HARMLESS: Final = re.compile(r"[\w.:;/@+*=|, -]*", re.ASCII).fullmatch
DUPLICATE: Final = 1062  # the error of an id that is taken
_IN_FLIGHT: Final = 2  # statements of one priority at a time


def size_of(values: Values) -> int:
    body, address, token, key, _queue, props = values
    return len(body) + len(token) + len(address or b"") + len(key or "") + len(props or b"") + (
        _ROW_BYTES
    )  # fmt: skip


def portions(rows: Sequence[Values], max_rows: int, max_bytes: int) -> list[Sequence[Values]]:
    """As few statements as the limits allow; a row above them has one of its own."""
    found: list[Any] = []
    size = 0
    for row in rows:
        its = size_of(row)
        if not found or len(found[-1]) >= max_rows or size + its > max_bytes:
            found.append([])
            size = 0
        found[-1].append(row)
        size += its
    return found


def _places(rows: Sequence[Values], number: int | None = None) -> tuple[str, list[object]]:
    """The rows of an INSERT, with ids from ``number`` on, and what the driver has to put into
    them: bodies and properties only, because each value costs it as much as a row the server."""
    places: list[str] = []
    values: list[object] = []
    known: dict[tuple[object, ...], str] = {}  # the same come again and again
    for at, (body, address, token, key, queue, props) in enumerate(rows, number or 0):
        own = f"{at}," if number is not None else ""
        rest = known.get((address, token, key, queue))
        if rest is None:
            packed = "NULL" if address is None else f"x'{address.hex()}'"
            text = "NULL" if key is None else _quoted(key)
            rest = known[address, token, key, queue] = f"{packed},{_quoted(token)},{text},{queue}"
        values.append(body)
        if props is None:
            places.append(f"({own}%s,{rest},NULL)")
        else:
            places.append(f"({own}%s,{rest},%s)")
            values.append(props)
    return ",".join(places), values


def _quoted(text: str) -> str:
    """A literal: of what is not harmless in one, the bytes."""
    if _HARMLESS(text):
        return f"'{text}'"
    return f"_utf8mb4 x'{text.encode('utf-8', 'surrogateescape').hex()}'"


@dataclass(eq=False, slots=True)
class _PendingRows:
    rows: Sequence[Values]
    size: int
    woken: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    ids: list[int] | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.ids is not None or self.error is not None


class PriorityAppender:
    """The appends of one priority of one topic. May be used from any thread.

    There are at most two leaders. Each sends one portion and makes another waiting thread the
    leader, so no thread works for the others for long.
    """

    def __init__(self, store: Callable[[Sequence[Values], int], list[int]], max_bytes: int) -> None:
        """``store`` takes rows and their size."""
        self._store = store
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: deque[_PendingRows] = deque()
        self._leaders = 0

    def append(self, rows: Sequence[Values]) -> list[int]:
        order = _PendingRows(rows, sum(map(size_of, rows)))
        with self._lock:
            self._waiting.append(order)
            if self._leaders < _IN_FLIGHT:
                self._leaders += 1
                order.leads = True
                order.woken.set()
        while not order.is_done or order.leads:
            order.woken.wait()
            with self._lock:
                order.woken.clear()
                leads, order.leads = order.leads, False
            if leads:
                self._lead()
            if order.is_done and not order.leads:
                break
        if order.error is not None:
            raise order.error
        assert order.ids is not None
        return order.ids

    def _lead(self) -> None:
        try:
            self._flush(self._take())
        finally:
            with self._lock:
                heir = next((order for order in self._waiting if not order.leads), None)
                if heir is None:
                    self._leaders -= 1
                else:
                    heir.leads = True
                    heir.woken.set()

    def _take(self) -> list[_PendingRows]:
        taken: list[_PendingRows] = []
        count = size = 0
        with self._lock:
            while self._waiting:
                count += len(self._waiting[0].rows)
                size += self._waiting[0].size
                if taken and (count > MAX_ROWS or size > self._max_bytes):
                    break
                taken.append(self._waiting.popleft())
        return taken

    def _flush(self, orders: list[_PendingRows]) -> None:
        if not orders:
            return
        try:
            rows = orders[0].rows
            if len(orders) > 1:
                rows = [row for order in orders for row in order.rows]
            ids = self._store(rows, sum(order.size for order in orders))
        except EngineUnavailable as error:
            self._settle(orders, None, error)
        except (BrokerError, Fault) as error:
            if len(orders) == 1:
                self._settle(orders, None, error)
            else:  # refused because of one of them: the others must not suffer
                for order in orders:
                    self._flush([order])
        except BaseException:
            # Interrupted, for example by Ctrl-C: the outcome is unknown, nothing is repeated.
            unknown = EngineUnavailable(f"the process was interrupted while it appended; {UNKNOWN}")
            self._settle(orders, None, unknown)
            raise
        else:
            self._settle(orders, ids, None)

    def _settle(
        self, orders: list[_PendingRows], ids: list[int] | None, error: BaseException | None
    ) -> None:
        at = 0
        with self._lock:
            for order in orders:
                if ids is not None:
                    order.ids = ids[at : at + len(order.rows)]
                    at += len(order.rows)
                order.error = error
                order.woken.set()


class RowWriter:
    """Stores rows of one priority: one statement, or several in one transaction."""

    def __init__(self, pool: Pool, topic: CatalogTopic, priority: Priority, packet: int) -> None:
        self._pool = pool
        self._topic = topic
        self._priority = priority
        self._table = tables.messages(topic.name, priority)
        # Escaping at most doubles what is sent.
        self.max_bytes = max(1024, min(MAX_BYTES, (packet - (64 << 10)) // 2))

    def __call__(self, rows: Sequence[Values], size: int) -> list[int]:
        is_one = len(rows) <= MAX_ROWS and size <= self.max_bytes
        parts = [rows] if is_one else portions(rows, MAX_ROWS, self.max_bytes)
        is_counted = self._topic.append_mode == "counter"

        def work(session: DbConnection) -> list[int]:
            if session.id_step != 1 and not is_counted:
                raise StoreError(
                    f"{ID_STEPS}, which topic {self._topic.name!r} cannot use; nothing was stored"
                )
            if len(parts) == 1 and not is_counted:
                return self._plain(session, parts[0])
            if is_counted:
                return self._counted(session, parts)
            with session.transaction():
                return [one for part in parts for one in self._plain(session, part)]

        return self._pool.call(work, unknown=UNKNOWN)

    def _plain(self, session: DbConnection, rows: Sequence[Values]) -> list[int]:
        places, values = _places(rows)
        first = session.insert(f"INSERT INTO {self._table} ({COLUMNS}) VALUES {places}", values)
        return list(range(first, first + len(rows)))

    def _counted(self, session: DbConnection, parts: list[Sequence[Values]]) -> list[int]:
        """Each statement in a packet of its own: a node of a cluster may abort the transaction
        between two statements of one packet, and the COMMIT at its end succeeds all the same."""
        topic, priority, count = self._topic.name, self._priority, sum(map(len, parts))
        try:
            with session.transaction():
                number = first = next_ids(session, topic, priority, count)
                for part in parts:
                    places, values = _places(part, number)
                    session.run(f"INSERT INTO {self._table} (id,{COLUMNS}) VALUES {places}", values)
                    number += len(part)
        except Fault as fault:
            if fault.code != DUPLICATE:
                raise
            with session.transaction():
                is_free = pass_rows(session, topic, priority, count)
            if not is_free:
                raise
            return self._counted(session, parts)
        return list(range(first, number))


def next_ids(session: DbConnection, topic: str, priority: Priority, count: int) -> int:
    """The first of ``count`` ids of the topic's counter; in a transaction."""
    last = session.insert(
        "UPDATE `msg_counter` SET last_id=LAST_INSERT_ID(last_id+%s) "
        "WHERE topic=%s AND priority=%s",
        (count, topic, priority.label),
    )
    return last - count + 1


def pass_rows(session: DbConnection, topic: str, priority: Priority, count: int) -> bool:
    """Move the counter past rows that lie in its way, or no append would ever succeed; whether
    there were some; in a transaction. Other programs insert such rows, and a packet of version 1
    could lose the step of the counter alone. Tombstones fill what is left between them."""
    [(last,)] = session.rows(
        "SELECT last_id FROM `msg_counter` WHERE topic=%s AND priority=%s FOR UPDATE",
        (topic, priority.label),
    )
    table = tables.messages(topic, priority)
    rows = session.rows(f"SELECT id FROM {table} WHERE id>%s AND id<=%s", (last, last + count))
    if not rows:
        return False
    taken = {number for (number,) in rows}
    if between := sorted(set(range(last + 1, max(taken))) - taken):
        values = ",".join(f"({number},'','',{TOMBSTONE})" for number in between)
        session.run(f"INSERT INTO {table} (id,body,token,flags) VALUES {values}")
    session.run(
        "UPDATE `msg_counter` SET last_id=%s WHERE topic=%s AND priority=%s",
        (max(taken), topic, priority.label),
    )
    return True


class Appends:
    """Appends of all topics; one appender per topic and priority."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._appenders: dict[tuple[str, Priority], PriorityAppender] = {}
        self._turns = itertools.count()

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        found = self._context.catalog.get(topic)
        own, max_body = self._context.catalog.own_address, self._context.max_body
        by_priority: dict[Priority, list[int]] = {}
        rows = []
        for at, entry in enumerate(entries):
            queue = self._queue(entry, found.queues)
            rows.append(values_of(entry, queue, max_body, own))
            by_priority.setdefault(entry.priority, []).append(at)
        if len(by_priority) == 1:
            return self._append(found, entries[0].priority, rows)
        ids = [0] * len(rows)
        stored: list[str] = []
        for priority, places in by_priority.items():
            try:
                new = self._append(found, priority, [rows[at] for at in places])
            except BrokerError as error:
                if not stored:
                    raise
                done = ", ".join(stored)
                raise type(error)(
                    f"{done} are stored; then, of priority {priority.label}: {error}"
                ) from None
            stored.append(f"{len(new)} messages of priority {priority.label}")
            for at, one in zip(places, new, strict=True):
                ids[at] = one
        return ids

    def _append(self, topic: CatalogTopic, priority: Priority, rows: list[Values]) -> list[int]:
        try:
            return self._appender(topic, priority).append(rows)
        except Fault as fault:
            raise self._context.missing_table(topic.name, fault) from None

    def clear(self) -> None:
        """A topic was deleted: its appenders go."""
        with self._lock:
            self._appenders.clear()

    def _appender(self, topic: CatalogTopic, priority: Priority) -> PriorityAppender:
        key = (topic.uuid, priority)
        with self._lock:
            found = self._appenders.get(key)
            if found is None:
                packet = self._context.catalog.prepare()
                writer = RowWriter(self._context.writers, topic, priority, packet)
                found = self._appenders[key] = PriorityAppender(writer, writer.max_bytes)
        return found

    def _queue(self, entry: Entry, queues: int) -> int:
        if queues == 1:
            return 0
        return next(self._turns) % queues if entry.key is None else queue_of(entry.key, queues)
