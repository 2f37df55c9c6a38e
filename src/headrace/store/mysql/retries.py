"""Single messages of a group that are to be tried again, or that it has given up: `msg_r`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.errors import BadTopicValue
from headrace.model.topics.claiming import Piece
from headrace.model.topics.lanes import Lane, lane_named
from headrace.store.mysql import ranges, schema
from headrace.store.mysql.driver import Session
from headrace.store.mysql.rows import SELECTED, message_of
from headrace.store.mysql.schema import NOW
from headrace.store.topics import Message, Reader

MAX_REASON: Final = 200
_GIVEN_UP: Final = "handed out too often without an answer"


def nack(
    session: Session,
    topic: str,
    reader: Reader,
    keys: Sequence[ranges.Key],
    ids: Sequence[tuple[Lane, int]],
    delay_ms: int,
    reason: str,
) -> None:
    """Out of the claim and into `msg_r`, in one transaction.

    The claim remembers them: whoever takes it over must not hand them out a second time.
    """
    with session.transaction():
        rows = ranges.locked(session, topic, reader, keys)
        aside: dict[int, set[int]] = {}
        found = []
        for lane, number in ids:
            row = _holder(rows, lane, number)
            if number in ranges.split_ids(row[5]):
                continue  # said before
            aside.setdefault(row[0], set(ranges.split_ids(row[5]))).add(number)
            found.append((lane, number, int(row[4])))
        _check_messages(session, topic, found)
        for lane, number, attempts in found:
            _insert(session, topic, reader, lane, number, attempts, delay_ms, reason)
        for claim_id, numbers in aside.items():
            session.run(
                f"UPDATE {schema.claims(topic)} SET nacked=%s WHERE id=%s",
                (ranges.join_ids(numbers), claim_id),
            )


def _holder(rows: Sequence[tuple[Any, ...]], lane: Lane, number: int) -> tuple[Any, ...]:
    for row in rows:
        if lane_named(row[1]) is lane and row[2] <= number <= row[3]:
            return row
    raise BadTopicValue(f"message {number} of lane {lane.label} is not in the claim")


def _check_messages(session: Session, topic: str, found: Sequence[tuple[Lane, int, int]]) -> None:
    """A tombstone is no message."""
    for lane in {one[0] for one in found}:
        numbers = [number for its, number, _ in found if its is lane]
        rows = session.rows(
            f"SELECT COUNT(*) FROM {schema.messages(topic, lane)} WHERE flags=0 AND id IN "
            f"({','.join(['%s'] * len(numbers))})",
            numbers,
        )
        if rows[0][0] != len(set(numbers)):
            raise BadTopicValue(f"not all of these ids of lane {lane.label} are messages")


def _insert(
    session: Session,
    topic: str,
    reader: Reader,
    lane: Lane,
    number: int,
    attempts: int,
    delay_ms: int,
    reason: str,
) -> None:
    state = "dead" if attempts >= reader.max_attempts else "retry"
    session.run(
        f"INSERT INTO {schema.retries(topic)} (group_id,priority,msg_id,attempts,due_ms,state,"
        f"reason) VALUES (%s,%s,%s,%s,{NOW}+%s,%s,%s) ON DUPLICATE KEY UPDATE "
        "attempts=VALUES(attempts), due_ms=VALUES(due_ms), state=VALUES(state), "
        "reason=VALUES(reason)",
        (reader.group, lane.label, number, attempts, delay_ms, state, reason[:MAX_REASON] or None),
    )


def remove(session: Session, topic: str, reader: Reader, pieces: Sequence[Piece]) -> None:
    """They are in a claim now."""
    for piece in pieces:
        session.run(
            f"DELETE FROM {schema.retries(topic)} WHERE group_id=%s AND priority=%s "
            "AND msg_id BETWEEN %s AND %s AND state='retry'",
            (reader.group, piece.lane.label, piece.start, piece.end),
        )


def bury_range(session: Session, topic: str, lane: Lane, key: ranges.Key, nacked: str) -> None:
    """An expired range that was handed out too often: all its messages are dead."""
    table = schema.claims(topic)
    if not session.rows(
        f"SELECT 1 FROM {table} WHERE id=%s AND epoch=%s AND end_id>0 AND lease_until_ms<{NOW} "
        "FOR UPDATE",
        key,
    ):
        return  # its owner was faster
    # The ids come out of our own column, written by join_ids: digits and commas.
    without = f" AND m.id NOT IN ({nacked})" if nacked else ""
    session.run(
        f"INSERT INTO {schema.retries(topic)} (group_id,priority,msg_id,attempts,due_ms,state,"
        f"reason) SELECT l.group_id,l.priority,m.id,l.attempts,{NOW},'dead',%s "
        f"FROM {table} l JOIN {schema.messages(topic, lane)} m "
        f"ON m.id BETWEEN l.start_id AND l.end_id AND m.flags=0{without} WHERE l.id=%s "
        "ON DUPLICATE KEY UPDATE attempts=VALUES(attempts), state='dead', reason=VALUES(reason)",
        (_GIVEN_UP, key[0]),
    )
    session.run(f"UPDATE {table} SET {ranges.FREE} WHERE id=%s", (key[0],))


def dead(session: Session, topic: str, group: str, limit: int) -> list[tuple[Message, str]]:
    """What the group has given up, as far as retention has left it."""
    rows = session.rows(
        f"SELECT priority,msg_id,attempts,reason FROM {schema.retries(topic)} "
        "WHERE group_id=%s AND state='dead' ORDER BY due_ms,msg_id LIMIT %s",
        (group, limit),
    )
    found = []
    for label, number, attempts, reason in rows:
        lane = lane_named(label)
        its = session.rows(
            f"SELECT {SELECTED} FROM {schema.messages(topic, lane)} WHERE id=%s", (number,)
        )
        if its:
            found.append((message_of(its[0], lane, attempts), str(reason or "")))
    return found
