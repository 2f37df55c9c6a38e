"""Single messages of a group that are to be tried again, or that it has given up: `msg_r`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headrace.errors import BadTopicValue
from headrace.model.topics.claim_plan import ClaimRange
from headrace.model.topics.message_priority import Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.groups.group_rows import ReaderRows
from headrace.store.mysql.message_rows import SELECTED, message_of
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection, Row
from headrace.store.topics.types import StoredMessage

MAX_REASON: Final = 200
_PORTION: Final = 1000  # rows of one statement
_Retried = tuple[Priority, int, int]  # a message and how often it was handed out
_GIVEN_UP: Final = "handed out too often without an answer"


def nack(
    own: ReaderRows,
    keys: Sequence[group_rows.Key],
    ids: Sequence[tuple[Priority, int]] | None,
    delay_ms: int,
    reason: str,
) -> None:
    """Out of the claim and into `msg_r`, in one transaction.

    The claim remembers them: the member that takes it over must not deliver them twice.
    """
    with own.session.transaction():
        if ids is None:
            own.lock_group()
        held = _ClaimContents(own.locked(keys))
        if ids is None:
            found = _all_of(own, held)
        else:
            found = [one for priority, number in ids if (one := held.set_aside(priority, number))]
            _check_messages(own, found)
        for at in range(0, len(found), _PORTION):
            _insert(own, found[at : at + _PORTION], delay_ms, reason)
        if ids is None:
            own.end(keys)
            return
        for claim_id, numbers in held.changed():
            own.session.run(
                f"UPDATE {own.claims} SET nacked=%s WHERE id=%s",
                (group_rows.join_ids(numbers), claim_id),
            )


class _ClaimContents:
    """What a claim has of each priority, without what was nacked before. An expired range and a
    retried message of it may be in one claim: only one of them has it. Thousands may be nacked at
    once, and others wait for the rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._aside = {row[0]: set(group_rows.split_ids(row[5])) for row in rows}
        self._changed: set[int] = set()
        self._live: dict[Priority, list[_IdRange]] = {}
        for row in rows:
            self._live.setdefault(priority_named(row[1]), []).extend(
                _IdRange(start, end, row[0], int(row[4]))
                for start, end in _without(row[2], row[3], self._aside[row[0]])
            )
        for stretches in self._live.values():
            stretches.sort()
        self._before = {
            (priority_named(row[1]), number) for row in rows for number in self._aside[row[0]]
        }

    def set_aside(self, priority: Priority, number: int) -> _Retried | None:
        """None when that was said before."""
        live = self._live.get(priority, [])
        at = bisect_right(live, number, key=_start) - 1
        if at < 0 or number > live[at].end:
            if (priority, number) in self._before:
                return None
            raise BadTopicValue(
                f"message {number} of priority {priority.label} is not in the claim"
            )
        _, _, claim_id, attempts = live[at]
        if number in self._aside[claim_id]:
            return None
        self._aside[claim_id].add(number)
        self._changed.add(claim_id)
        return priority, number, attempts

    def stretches(self) -> Iterator[tuple[Priority, int, int]]:
        """What is left of it, tombstones included: priority, first and last id."""
        for priority, stretches in self._live.items():
            for one in stretches:
                yield priority, one.start, one.end

    def changed(self) -> list[tuple[int, set[int]]]:
        return [(claim_id, self._aside[claim_id]) for claim_id in sorted(self._changed)]


class _IdRange(NamedTuple):
    start: int
    end: int
    claim_id: int
    attempts: int


def _start(stretch: _IdRange) -> int:
    return stretch.start


def _without(start: int, end: int, gone: Iterable[int]) -> Iterator[tuple[int, int]]:
    """What is left of start .. end."""
    for number in sorted(gone):
        if not start <= number <= end:
            continue
        if start < number:
            yield start, number - 1
        start = number + 1
    if start <= end:
        yield start, end


def _all_of(own: ReaderRows, held: _ClaimContents) -> list[_Retried]:
    """Every message of the claim, set aside."""
    found = []
    for priority, start, end in list(held.stretches()):
        for (number,) in own.session.rows(
            f"SELECT id FROM {tables.messages(own.topic, priority)} "
            "WHERE id BETWEEN %s AND %s AND flags=0 ORDER BY id",
            (start, end),
        ):
            if (one := held.set_aside(priority, number)) is not None:
                found.append(one)
    return found


def _check_messages(own: ReaderRows, found: Sequence[_Retried]) -> None:
    """A tombstone is no message."""
    for priority in {one[0] for one in found}:
        numbers = [number for its, number, _ in found if its is priority]
        rows = own.session.rows(
            f"SELECT COUNT(*) FROM {tables.messages(own.topic, priority)} WHERE flags=0 AND id IN "
            f"({','.join(['%s'] * len(numbers))})",
            numbers,
        )
        if rows[0][0] != len(set(numbers)):
            raise BadTopicValue(f"not all of these ids of priority {priority.label} are messages")


def _insert(own: ReaderRows, found: Sequence[_Retried], delay_ms: int, reason: str) -> None:
    values: list[object] = []
    for priority, number, attempts in found:
        state = "dead" if attempts >= own.reader.max_attempts else "retry"
        values += [own.reader.group, priority.label, number, attempts, delay_ms, state]
        values.append(reason[:MAX_REASON] or None)
    own.session.run(
        f"INSERT INTO {own.retries} (group_id,priority,msg_id,attempts,due_ms,state,"
        f"reason) VALUES {','.join([f'(%s,%s,%s,%s,{NOW}+%s,%s,%s)'] * len(found))} "
        "ON DUPLICATE KEY UPDATE attempts=VALUES(attempts), due_ms=VALUES(due_ms), "
        "state=VALUES(state), reason=VALUES(reason)",
        values,
    )


def remove(own: ReaderRows, pieces: Sequence[ClaimRange]) -> None:
    """They are in a claim now."""
    for at in range(0, len(pieces), _PORTION):
        portion = pieces[at : at + _PORTION]
        values: list[object] = [own.reader.group]
        for piece in portion:
            values += [piece.priority.label, piece.start, piece.end]
        which = " OR ".join(["(priority=%s AND msg_id BETWEEN %s AND %s)"] * len(portion))
        own.session.run(
            f"DELETE FROM {own.retries} WHERE group_id=%s AND state='retry' AND ({which})",
            values,
        )


def bury_range(own: ReaderRows, priority: Priority, key: group_rows.Key, nacked: str) -> None:
    """An expired range that was handed out too often: all its messages are dead."""
    if not own.session.rows(
        f"SELECT 1 FROM {own.claims} WHERE id=%s AND epoch=%s AND end_id>0 "
        f"AND lease_until_ms<{NOW} FOR UPDATE",
        key,
    ):
        return  # its owner was faster
    # The ids come out of our own column, written by join_ids: digits and commas.
    without = f" AND m.id NOT IN ({nacked})" if nacked else ""
    own.session.run(
        f"INSERT INTO {own.retries} (group_id,priority,msg_id,attempts,due_ms,state,"
        f"reason) SELECT l.group_id,l.priority,m.id,l.attempts,{NOW},'dead',%s "
        f"FROM {own.claims} l JOIN {tables.messages(own.topic, priority)} m "
        f"ON m.id BETWEEN l.start_id AND l.end_id AND m.flags=0{without} WHERE l.id=%s "
        "ON DUPLICATE KEY UPDATE attempts=VALUES(attempts), state='dead', reason=VALUES(reason)",
        (_GIVEN_UP, key[0]),
    )
    own.session.run(f"UPDATE {own.claims} SET {group_rows.FREE} WHERE id=%s", (key[0],))


def dead(
    session: DbConnection, topic: str, group: str, limit: int
) -> list[tuple[StoredMessage, str]]:
    """What the group has given up, as far as retention has left it."""
    rows = session.rows(
        f"SELECT priority,msg_id,attempts,reason FROM {tables.retries(topic)} "
        "WHERE group_id=%s AND state='dead' ORDER BY due_ms,msg_id LIMIT %s",
        (group, limit),
    )
    found = []
    for label, number, attempts, reason in rows:
        priority = priority_named(label)
        its = session.rows(
            f"SELECT {SELECTED} FROM {tables.messages(topic, priority)} WHERE id=%s", (number,)
        )
        if its:
            found.append((message_of(its[0], priority, attempts), str(reason or "")))
    return found
