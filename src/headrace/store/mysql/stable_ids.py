"""Stable ids: how far each priority of a topic may be read. Holes, tombstones, the fence.

The server assigns an id before its row is visible, and rows become visible in any order. So a
missing id is either on its way or will never come. Invariants:

1. Every id from ``low_id`` to ``stable_id`` has a row: a message, or a tombstone (flags=1) in place
   of an id that will never come. Nothing at or below the stable id appears later.
2. Consumers read no id above the stable id, so no message is skipped.
3. ``stable_id`` in `msg_readable` only grows (GREATEST), whichever process writes it. A process
   that writes an older value changes nothing.
4. No time limit decides whether an id is dead. A tombstone is inserted at it (the fence): while its
   producer is at work that waits for the producer's lock and gives up; when the producer is gone
   the tombstone takes the id.
5. A producer that comes after the fence gets error 1062 and takes another id. Its messages are
   stored once, with higher ids.
6. With append_mode=counter ids are assigned in the order of commits and holes close by themselves:
   nothing is fenced.
7. Holes larger than MAX_HOLE are reported and never fenced: an operator decides.

Retention raises ``low_id`` before it removes rows, so invariant 1 holds for what readers see.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.errors import BrokerError
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.message_rows import TOMBSTONE
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault, FaultKind
from headrace.store.sql.pool import Pool

logger = logging.getLogger(__name__)

WINDOW: Final = 5000
MAX_WINDOWS: Final = 4  # of one priority at a time: the next read goes on
MAX_FENCE: Final = 1000
MAX_HOLE: Final = 100_000  # larger ones are an accident that an operator must look at


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be read of a priority: ids from ``low`` to ``stable``."""

    stable: int
    low: int


TopicBounds = Mapping[Priority, Bounds]


@dataclass(frozen=True, slots=True)
class HoleScan:
    """What one look behind the stable id has shown."""

    bounds: Bounds
    hole: Hole | None = None
    is_full: bool = False  # there may be more behind the window


def load(session: DbConnection, topic: str) -> dict[Priority, Bounds]:
    """As it is written down; nothing when the topic is gone."""
    rows = session.rows(
        "SELECT priority,stable_id,low_id FROM `msg_readable` WHERE topic=%s", (topic,)
    )
    return {priority_named(label): Bounds(stable, low) for label, stable, low in rows}


def look(
    session: DbConnection, topic: CatalogTopic, found: dict[Priority, Bounds]
) -> dict[Priority, HoleScan]:
    """Where the ids end without a hole, in one statement for all priorities.

    While a hole follows the stable id its priority costs two lookups in the index and nothing is
    counted: every read comes here, and a hole may stay for as long as its producer likes.
    """
    counts = " UNION ALL ".join(
        f"SELECT %s,(SELECT MIN(id) FROM {table} WHERE id>%s),(SELECT MAX(id) FROM {table}),"
        f"COUNT(*),MAX(id) FROM {table} WHERE id>%s AND id<=%s "
        f"AND EXISTS (SELECT 1 FROM {table} WHERE id=%s)"
        for table in (tables.messages(topic.name, priority) for priority in found)
    )
    values: list[object] = []
    for priority, bounds in found.items():
        stable = bounds.stable
        values += [priority.label, stable, stable, stable + WINDOW, stable + 1]
    looks = {}
    for label, first, end, count, last in session.rows(counts, values):
        priority = priority_named(label)
        bounds = found[priority]
        if first is None:
            looks[priority] = HoleScan(bounds)
        elif first > bounds.stable + 1:
            looks[priority] = HoleScan(bounds, Hole(bounds.stable + 1, first - 1))
        elif count and count == last - bounds.stable:
            looks[priority] = HoleScan(Bounds(last, bounds.low), is_full=end > last)
        else:
            looks[priority] = _look_closely(session, tables.messages(topic.name, priority), bounds)
    return looks


def _look_closely(session: DbConnection, table: str, bounds: Bounds) -> HoleScan:
    """There is a hole in the window: up to where an id is as high as there are ids before it. The
    server counts: fetching thousands of ids takes three times as long, and all of it is Python."""
    stable = bounds.stable
    [(last, behind)] = session.rows(
        "SELECT MAX(IF(id=place,id,NULL)),MIN(IF(id>place,id,NULL)) FROM "
        f"(SELECT id,%s+ROW_NUMBER() OVER (ORDER BY id) AS place FROM {table} "
        "WHERE id>%s AND id<=%s) AS seen",
        (stable, stable, stable + WINDOW),
    )
    if last is None:
        last = stable
    hole = None if behind is None else Hole(last + 1, behind - 1)
    return HoleScan(Bounds(last, bounds.low), hole, is_full=hole is None)


def keep(session: DbConnection, topic: str, stable: Mapping[Priority, int]) -> None:
    """Write them down; they only grow. One statement, because each is a sync of the server."""
    values: list[object] = [
        value for priority, one in stable.items() for value in (priority.label, one)
    ]
    session.run(
        "UPDATE `msg_readable` SET stable_id=GREATEST(stable_id,CASE priority "
        f"{' '.join(['WHEN %s THEN %s'] * len(stable))} END) "
        f"WHERE topic=%s AND priority IN ({','.join(['%s'] * len(stable))})",
        [*values, topic, *(priority.label for priority in stable)],
    )


def _last_ids(session: DbConnection, topic: str) -> dict[Priority, int]:
    """The highest id of each priority that is committed, in one snapshot."""
    found = session.rows(
        " UNION ALL ".join(
            f"SELECT '{priority.label}',(SELECT MAX(id) FROM {tables.messages(topic, priority)})"
            for priority in BY_URGENCY
        )
    )
    return {priority_named(label): last or 0 for label, last in found}


def _advance(
    session: DbConnection, topic: CatalogTopic
) -> tuple[dict[Priority, Bounds], dict[Priority, Hole]]:
    """What may be read now, and the holes behind it."""
    bounds = load(session, topic.name)
    holes: dict[Priority, Hole] = {}
    left = dict(bounds)
    for _ in range(MAX_WINDOWS):
        if not left:
            break
        looks = look(session, topic, left)
        moved = {
            priority: seen.bounds.stable
            for priority, seen in looks.items()
            if seen.bounds.stable > bounds[priority].stable
        }
        if moved:
            try:
                keep(session, topic.name, moved)
            except Fault as fault:  # a reader that may only read leaves it to others
                if not fault.is_no_permission:
                    raise
        for priority, seen in looks.items():
            bounds[priority] = seen.bounds
            if seen.hole is not None:
                holes[priority] = seen.hole
        left = {priority: bounds[priority] for priority, seen in looks.items() if seen.is_full}
    return {priority: bounds[priority] for priority in BY_URGENCY if priority in bounds}, holes


class StableIds:
    """Moves the stable ids, for as many topics as there are. May be used from any thread."""

    def __init__(self, fencer: Fencer) -> None:
        self._fencer = fencer

    def advance(self, session: DbConnection, topic: CatalogTopic) -> dict[Priority, Bounds]:
        """What may be read now. Holes found are left to the fencer."""
        bounds, holes = _advance(session, topic)
        # With a counter there are no dead ids: what is missing will be seen soon.
        if topic.append_mode == "auto":
            for priority, hole in holes.items():
                self._fencer.noticed(topic.name, priority, hole)
        return bounds

    def complete(
        self, session: DbConnection, topic: CatalogTopic, patience_s: float
    ) -> tuple[dict[Priority, Bounds], str]:
        """What may be read, with every message that is committed at this moment: holes below them
        are fenced first. The text says which hole is left after ``patience_s``, and why."""
        ends = _last_ids(session, topic.name)
        deadline = time.monotonic() + patience_s
        waited: set[tuple[Priority, int]] = set()
        while True:
            bounds, holes = _advance(session, topic)
            behind = [one for one in bounds if bounds[one].stable < ends[one]]
            kept = [(one, holes[one]) for one in behind if one in holes]
            if not behind:
                return bounds, ""
            new = {(one, hole.last) for one, hole in kept} - waited
            if new or (kept and topic.append_mode == "counter"):
                self._fencer.wait()
                waited |= new
            why, is_final = "no transaction has taken them yet", False
            for priority, hole in kept if topic.append_mode == "auto" else ():
                why, is_final = self._fencer.fence(topic.name, priority, hole)
                if is_final:
                    break
            if kept and (is_final or (why and time.monotonic() > deadline)):
                priority, hole = kept[0]
                return bounds, (
                    f"topic '{topic.name}', priority {priority.label}: {hole} are missing, and "
                    f"messages up to id {ends[priority]} are committed behind them: {why}"
                )


class Fencer:
    """Closes holes that stay, in a thread of its own: an INSERT may wait for a producer."""

    def __init__(self, pool: Pool, grace_s: float) -> None:
        self._pool = pool  # its sessions wait for locks for one second only
        self._grace_s = grace_s
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._holes: dict[tuple[str, Priority], tuple[Hole, float]] = {}
        self._thread: threading.Thread | None = None

    def noticed(self, topic: str, priority: Priority, hole: Hole) -> None:
        if self._pid != os.getpid():
            self._reset()  # a forked child has none of its parent's threads
        with self._changed:
            known = self._holes.get((topic, priority))
            if self._is_closed or (known is not None and known[0].first == hole.first):
                return
            self._holes[topic, priority] = (hole, time.monotonic() + self._grace_s)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-mysql-fencer", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def wait(self) -> None:
        """As long as a hole must have been there before it is fenced."""
        time.sleep(max(self._grace_s, 0.005))

    def fence(self, topic: str, priority: Priority, hole: Hole) -> tuple[str, bool]:
        """Fence in this thread: why it could not be done, and whether trying again is of no use."""
        if len(hole) > MAX_HOLE:
            return f"more than {MAX_HOLE:,} ids are not fenced, see the log", True
        try:
            with self._pool.session() as session:
                close_hole(session, topic, priority, hole)
        except Fault as fault:
            if fault.is_no_permission:
                return f"this user may not fence them with tombstones: {fault}", True
            if fault.kind is not FaultKind.AGAIN:
                raise
            return "the transaction that took them is still open", False
        return "", False

    def _run(self) -> None:
        while (job := self._next()) is not None:
            (topic, priority), hole = job
            try:
                with self._pool.session() as session:
                    close_hole(session, topic, priority, hole)
            except (BrokerError, Fault) as error:
                # Its owner is at work, or there is no connection: the next reader notices it again.
                logger.debug(
                    "hole %s of %s %s stays for now: %s", hole, topic, priority.label, error
                )
            except Exception:  # a driver may raise anything; without this thread readers would stop
                logger.exception("hole %s of %s %s stays for now", hole, topic, priority.label)

    def _next(self) -> tuple[tuple[str, Priority], Hole] | None:
        with self._changed:
            while not self._is_closed:
                if not self._holes:
                    self._changed.wait()
                    continue
                key = min(self._holes, key=lambda one: self._holes[one][1])
                hole, due = self._holes[key]
                if (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)
                    continue
                del self._holes[key]
                return key, hole
        return None


def close_hole(session: DbConnection, topic: str, priority: Priority, hole: Hole) -> int:
    """Tombstones at ids that are missing. How many were set; look again before believing it."""
    if len(hole) > MAX_HOLE:
        logger.error(
            "topic %s, priority %s: the ids %s to %s are missing, more than any crash explains; "
            "nothing behind them is read. If no producer is at work, insert rows with flags=1 "
            "there, or set stable_id in msg_readable to %s",
            topic, priority.label, hole.first, hole.last, hole.last,
        )  # fmt: skip
        return 0
    ids = fence(hole, MAX_FENCE)
    values = ",".join(f"({number},'','',{TOMBSTONE})" for number in ids)
    return session.run(
        f"INSERT IGNORE INTO {tables.messages(topic, priority)} (id,body,token,flags) "
        f"VALUES {values}"
    )


@dataclass(frozen=True, slots=True)
class Hole:
    """The ids from ``first`` to ``last`` are missing; ``last + 1`` is there."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"ids {self.first} to {self.last}"


def fence(hole: Hole, limit: int) -> range:
    """The ids to take away from producers that will never use them, from the lowest on."""
    return range(hole.first, min(hole.last, hole.first + limit - 1) + 1)
