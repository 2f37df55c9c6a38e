"""Claims of groups: a row per range handed out, with a lease and an epoch.

Claims of one group are made one after the other (each writes its row in `msg_c`), so no range is
given twice. A commit ends the rows of the claim if they still carry the token and the epoch they
were given with, and their lease is not over: a member that was too slow is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from headrace.model.topics.claim_plan import ClaimableWork, ClaimRange, DueRetry, ExpiredRange, plan
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.bodies import BodyReader, is_message
from headrace.store.mysql.groups import group_rows, read_ahead, retries
from headrace.store.mysql.groups.group_rows import (
    FREE,
    ClaimedRange,
    Key,
    NewClaimRow,
    end,
    lost,
    new_epoch,
    put,
    split_ids,
)
from headrace.store.mysql.groups.read_ahead import IdsAhead
from headrace.store.mysql.message_rows import message_of
from headrace.store.mysql.single_consumer import overtaken
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import ConsumerSpec, ReadResult, StoredMessage

_MAX_EXPIRED: Final = 1000
_SPARE: Final = 8  # free rows for what is split
_MAX_RANGE: Final = 10_000  # ids of a range with dead ones between its messages


# -- taking ----------------------------------------------------------------------------------


def take(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    bounds: Mapping[Priority, Bounds],
    room: int,
    acks: Sequence[Key] = (),
    *,
    released: IdsAhead | None = None,
    counts_messages: bool = False,
) -> tuple[list[ClaimedRange], bool]:
    """Commit ``acks`` and hand out ranges with ``room`` ids, in one transaction; whether that is
    all there is. ``released``: ids that the reader has claimed ahead. ``counts_messages``: with
    ``room`` messages, dead ids beside them; it costs another statement for each priority."""
    with session.transaction():
        if group_rows.lock_group(session, topic, reader) < len(BY_URGENCY):
            group_rows.make_cursors(session, topic, reader, bounds)
            group_rows.lock_group(session, topic, reader)
        if acks:
            end(session, topic, reader, acks)
        if released is not None:
            read_ahead.release(session, topic, released)
        found = _find(session, topic, reader, room)
        heads = found.heads
        starts = {
            priority: overtaken(
                topic, f"group {reader.group}", priority, heads[priority], bounds[priority]
            )
            for priority in BY_URGENCY
        }
        late = {priority: at for priority, at in starts.items() if at > heads[priority]}
        _move_heads(session, topic, reader, late)  # logged once, not with every read
        work = {
            priority: ClaimableWork(
                starts[priority],
                bounds[priority].stable,
                found.expired[priority],
                found.due[priority],
            )
            for priority in BY_URGENCY
        }
        pieces = plan(work, room, reader.min_share)
        is_all = sum(map(len, pieces)) < room
        if counts_messages:
            pieces = _past_dead_ids(session, topic, reader, bounds, pieces)
        return _hand_out(session, topic, reader, pieces, found), is_all


def _past_dead_ids(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    bounds: Mapping[Priority, Bounds],
    pieces: Sequence[ClaimRange],
) -> list[ClaimRange]:
    """The same with as many messages as there were ids in what is handed out for the first
    time, beginning with a message; there may be any number of tombstones before it."""
    found = []
    empty: dict[Priority, int] = {}
    for piece in pieces:
        if not piece.is_fresh:
            found.append(piece)
            continue
        stable = bounds[piece.priority].stable
        [(first, last, count)] = session.rows(
            "SELECT MIN(id),MAX(id),COUNT(*) FROM (SELECT id FROM "
            f"{tables.messages(topic, piece.priority)} WHERE id>=%s AND id<=%s AND flags=0 "
            f"ORDER BY id LIMIT {len(piece)}) AS following",
            (piece.start, stable),
        )
        if first is None:
            empty[piece.priority] = stable
            continue
        end = last if count == len(piece) else stable
        furthest = first + max(_MAX_RANGE, len(piece)) - 1
        found.append(replace(piece, start=first, end=min(end, furthest)))
    _move_heads(session, topic, reader, empty)
    return found


@dataclass(slots=True)
class _ReclaimableRanges:
    """What there is to hand out again, what was nacked of it, free rows, and up to which ids the
    group has claimed."""

    expired: dict[Priority, list[ExpiredRange]] = field(
        default_factory=lambda: {priority: [] for priority in Priority}
    )
    due: dict[Priority, list[DueRetry]] = field(
        default_factory=lambda: {priority: [] for priority in Priority}
    )
    nacked: dict[int, frozenset[int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    heads: dict[Priority, int] = field(default_factory=dict)


def _find(session: DbConnection, topic: str, reader: ConsumerSpec, room: int) -> _ReclaimableRanges:
    found = _ReclaimableRanges()
    table = tables.claims(topic)
    rows = session.rows(
        f"(SELECT 0,priority,id,start_id,end_id,attempts,epoch,nacked FROM {table} "
        f"WHERE group_id=%s AND end_id>0 AND lease_until_ms<{NOW} "
        f"ORDER BY start_id LIMIT {_MAX_EXPIRED}) UNION ALL "
        f"(SELECT 1,priority,msg_id,0,0,attempts,0,NULL FROM {tables.retries(topic)} "
        f"WHERE group_id=%s AND state='retry' AND due_ms<={NOW} ORDER BY due_ms LIMIT {room}) "
        f"UNION ALL (SELECT 2,priority,id,0,0,0,0,NULL FROM {table} "
        f"WHERE group_id=%s AND end_id=0 AND (token=%s OR lease_until_ms<{NOW}) "
        f"LIMIT {room + _SPARE}) "
        f"UNION ALL (SELECT 3,priority,claimed,0,0,0,0,NULL FROM {tables.cursors(topic)} "
        "WHERE group_key=%s AND token='' AND queue_id=0)",
        (reader.group, reader.group, reader.group, reader.token, reader.group),
    )
    for kind, label, number, start, last, attempts, epoch, nacked in rows:
        priority = priority_named(label)
        if kind == 3:
            found.heads[priority] = number
        elif kind == 2:
            found.free.append(number)
        elif kind == 1:
            found.due[priority].append(DueRetry(number, attempts))
        elif attempts >= reader.max_attempts:
            retries.bury_range(session, topic, priority, (number, epoch), nacked or "")
        else:
            found.expired[priority].append(ExpiredRange(number, start, last, attempts, epoch))
            found.nacked[number] = split_ids(nacked)
    return found


def _hand_out(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    pieces: Sequence[ClaimRange],
    found: _ReclaimableRanges,
) -> list[ClaimedRange]:
    taken: dict[ClaimRange, ClaimedRange] = {}
    new = [piece for piece in pieces if piece.held is None]
    for piece in pieces:
        if piece.held is not None:
            its = found.nacked[piece.held.id]
            claimed = _take_over(session, topic, reader, piece, piece.held, its, found.free)
            if claimed is not None:
                taken[piece] = claimed
    retries.remove(session, topic, reader, [piece for piece in new if not piece.is_fresh])
    _move_heads(session, topic, reader, {one.priority: one.end for one in new if one.is_fresh})
    rows = [
        NewClaimRow(one.priority, one.start, one.end, one.attempts, reader.token) for one in new
    ]
    for piece, (number, epoch) in zip(
        new, put(session, topic, reader, rows, found.free), strict=True
    ):
        taken[piece] = ClaimedRange(number, epoch, piece)
    return [taken[piece] for piece in pieces if piece in taken]


def _take_over(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    piece: ClaimRange,
    held: ExpiredRange,
    nacked: frozenset[int],
    free: list[int],
) -> ClaimedRange | None:
    """An expired range, or its beginning; the rest stays expired. None when its owner has
    committed or renewed it since we looked."""
    epoch = new_epoch()
    count = session.run(
        f"UPDATE {tables.claims(topic)} SET token=%s, epoch=%s, attempts=attempts+1, end_id=%s, "
        f"lease_until_ms={NOW}+%s WHERE id=%s AND epoch=%s AND end_id=%s "
        f"AND lease_until_ms<{NOW}",
        (reader.token, epoch, piece.end, reader.lease_ms, held.id, held.epoch, held.end),
    )
    if not count:
        return None
    if piece.end < held.end:
        rest = NewClaimRow(piece.priority, piece.end + 1, held.end, held.attempts, nacked=nacked)
        put(session, topic, reader, [rest], free)
    return ClaimedRange(held.id, epoch, piece, nacked)


def _move_heads(
    session: DbConnection, topic: str, reader: ConsumerSpec, ends: Mapping[Priority, int]
) -> None:
    if not ends:
        return
    values: list[object] = [
        value for priority, end in ends.items() for value in (priority.label, end)
    ]
    values += [reader.group, *(priority.label for priority in ends)]
    session.run(
        f"UPDATE {tables.cursors(topic)} SET "
        f"claimed=CASE priority {' '.join(['WHEN %s THEN %s'] * len(ends))} END "
        "WHERE group_key=%s AND token='' AND queue_id=0 "
        f"AND priority IN ({','.join(['%s'] * len(ends))})",
        values,
    )


def give_back(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    unread: Sequence[tuple[ClaimedRange, int]],
) -> None:
    """What did not fit into a batch: each range is ours up to an id, the rest anybody's."""
    with session.transaction():
        for claimed, last in unread:
            piece = claimed.piece
            change = "end_id=%s" if last >= piece.start else FREE
            values: tuple[object, ...] = (last,) if last >= piece.start else ()
            count = session.run(
                f"UPDATE {tables.claims(topic)} SET {change} WHERE id=%s AND epoch=%s",
                (*values, claimed.id, claimed.epoch),
            )
            if not count:
                raise lost(topic, reader)
            rest = NewClaimRow(
                piece.priority, last + 1, piece.end, piece.attempts - 1, nacked=claimed.nacked
            )
            put(session, topic, reader, [rest], [])


_ROUNDS: Final = 8  # of claims for one read, when tombstones have made the first too small


def read(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    bounds: Mapping[Priority, Bounds],
    batch: int,
    bodies: BodyReader,
    acks: list[Key],
    held: list[ClaimedRange],
    messages: list[StoredMessage],
    released: IdsAhead | None,
) -> ReadResult:
    """Commit ``acks`` and take up to ``batch`` messages, those included which are there already.
    Acks are removed from the list when they are committed: a repetition must not do it again."""
    for turn in range(len(held), _ROUNDS):
        room = batch - len(messages)
        claim = partial(
            take, session, topic, reader, bounds, room, acks,
            released=released, counts_messages=turn > 0,
        )  # fmt: skip
        taken, is_all = session.repeat(claim)  # here, because earlier rounds are committed
        acks.clear()
        messages += messages_of(session, topic, reader, taken, bodies)
        held += taken
        if len(messages) >= batch or bodies.is_full or is_all:
            break
    return result(session, topic, reader, messages, held)


def result(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    messages: list[StoredMessage],
    held: list[ClaimedRange],
) -> ReadResult:
    if not messages:
        if held:  # nothing but tombstones
            group_rows.commit(session, topic, reader, [(one.id, one.epoch) for one in held])
        return ReadResult()
    messages.sort(key=lambda one: BY_URGENCY.index(one.priority))
    return ReadResult(
        tuple(messages), (group_rows.KIND, reader.group, [one.as_data() for one in held])
    )


def messages_of(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    taken: list[ClaimedRange],
    bodies: BodyReader,
) -> list[StoredMessage]:
    """The messages of ranges; ranges that do not fit in one batch are released."""
    found: list[StoredMessage] = []
    unread: list[tuple[ClaimedRange, int]] = []
    for claimed in tuple(taken):
        piece = claimed.piece
        table = tables.messages(topic, piece.priority)
        rows, end = bodies.range(session, table, piece.start, piece.end)
        found += [
            message_of(row, piece.priority, piece.attempts)
            for row in rows
            if is_message(row) and row[0] not in claimed.nacked
        ]
        if end < piece.end:
            unread.append((claimed, end))
            if end < piece.start:
                taken.remove(claimed)
    if unread:
        give_back(session, topic, reader, unread)
    return found
