"""Claims of groups: a row per range handed out, with a lease and an epoch.

Claims of one group are made one after the other (each writes its row in `msg_c`), so no range is
given twice. A commit ends the rows of the claim if they still carry the token and the epoch they
were given with, and their lease is not over: a member that was too slow is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from headrace.model.topics.claim_plan import ClaimableWork, ClaimRange, DueRetry, ExpiredRange, plan
from headrace.model.topics.message_priority import BY_URGENCY, Priority, priority_named
from headrace.store.mysql import tables
from headrace.store.mysql.groups import read_ahead, retries
from headrace.store.mysql.groups.group_rows import (
    FREE,
    KIND,
    ClaimedRange,
    Key,
    NewClaimRow,
    ReaderRows,
    new_epoch,
    split_ids,
)
from headrace.store.mysql.groups.read_ahead import IdsAhead
from headrace.store.mysql.message_rows import BodyReader, is_message, message_of
from headrace.store.mysql.stable_ids import TopicBounds
from headrace.store.mysql.tables import NOW
from headrace.store.topics.types import ReadResult, StoredMessage

_MAX_EXPIRED: Final = 1000
_SPARE: Final = 8  # free rows for what is split
_MAX_RANGE: Final = 10_000  # ids of a range with dead ones between its messages


# -- taking ----------------------------------------------------------------------------------


def take(
    own: ReaderRows,
    bounds: TopicBounds,
    room: int,
    acks: Sequence[Key] = (),
    *,
    released: IdsAhead | None = None,
    counts_messages: bool = False,
) -> tuple[list[ClaimedRange], bool]:
    """Commit ``acks`` and hand out ranges with ``room`` ids, in one transaction; whether that is
    all there is. ``released``: ids that the reader has claimed ahead. ``counts_messages``: with
    ``room`` messages, dead ids beside them; it costs another statement for each priority."""
    with own.session.transaction():
        if own.lock_group() < len(BY_URGENCY):
            own.make_cursors(bounds)
            own.lock_group()
        if acks:
            own.end(acks)
        if released is not None:
            read_ahead.release(own.session, own.topic, released)
        found = _find(own, room)
        heads = found.heads
        starts = {
            priority: own.overtaken(priority, heads[priority], bounds[priority])
            for priority in BY_URGENCY
        }
        late = {priority: at for priority, at in starts.items() if at > heads[priority]}
        own.move(late)  # logged once, not with every read
        work = {
            priority: ClaimableWork(
                starts[priority],
                bounds[priority].stable,
                found.expired[priority],
                found.due[priority],
            )
            for priority in BY_URGENCY
        }
        pieces = plan(work, room, own.reader.min_share)
        is_all = sum(map(len, pieces)) < room
        if counts_messages:
            pieces = _past_dead_ids(own, bounds, pieces)
        return _hand_out(own, pieces, found), is_all


def _past_dead_ids(
    own: ReaderRows, bounds: TopicBounds, pieces: Sequence[ClaimRange]
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
        [(first, last, count)] = own.session.rows(
            "SELECT MIN(id),MAX(id),COUNT(*) FROM (SELECT id FROM "
            f"{tables.messages(own.topic, piece.priority)} WHERE id>=%s AND id<=%s AND flags=0 "
            f"ORDER BY id LIMIT {len(piece)}) AS following",
            (piece.start, stable),
        )
        if first is None:
            empty[piece.priority] = stable
            continue
        end = last if count == len(piece) else stable
        furthest = first + max(_MAX_RANGE, len(piece)) - 1
        found.append(replace(piece, start=first, end=min(end, furthest)))
    own.move(empty)
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


def _find(own: ReaderRows, room: int) -> _ReclaimableRanges:
    found, group = _ReclaimableRanges(), own.reader.group
    rows = own.session.rows(
        f"(SELECT 0,priority,id,start_id,end_id,attempts,epoch,nacked FROM {own.claims} "
        f"WHERE group_id=%s AND end_id>0 AND lease_until_ms<{NOW} "
        f"ORDER BY start_id LIMIT {_MAX_EXPIRED}) UNION ALL "
        f"(SELECT 1,priority,msg_id,0,0,attempts,0,NULL FROM {own.retries} "
        f"WHERE group_id=%s AND state='retry' AND due_ms<={NOW} ORDER BY due_ms LIMIT {room}) "
        f"UNION ALL (SELECT 2,priority,id,0,0,0,0,NULL FROM {own.claims} "
        f"WHERE group_id=%s AND end_id=0 AND (token=%s OR lease_until_ms<{NOW}) "
        f"LIMIT {room + _SPARE}) "
        f"UNION ALL (SELECT 3,priority,claimed,0,0,0,0,NULL FROM {own.cursors} "
        "WHERE group_key=%s AND token='' AND queue_id=0)",
        (group, group, group, own.reader.token, group),
    )
    for kind, label, number, start, last, attempts, epoch, nacked in rows:
        priority = priority_named(label)
        if kind == 3:
            found.heads[priority] = number
        elif kind == 2:
            found.free.append(number)
        elif kind == 1:
            found.due[priority].append(DueRetry(number, attempts))
        elif attempts >= own.reader.max_attempts:
            retries.bury_range(own, priority, (number, epoch), nacked or "")
        else:
            found.expired[priority].append(ExpiredRange(number, start, last, attempts, epoch))
            found.nacked[number] = split_ids(nacked)
    return found


def _hand_out(
    own: ReaderRows, pieces: Sequence[ClaimRange], found: _ReclaimableRanges
) -> list[ClaimedRange]:
    taken: dict[ClaimRange, ClaimedRange] = {}
    new = [piece for piece in pieces if piece.held is None]
    for piece in pieces:
        if piece.held is not None:
            its = found.nacked[piece.held.id]
            claimed = _take_over(own, piece, piece.held, its, found.free)
            if claimed is not None:
                taken[piece] = claimed
    retries.remove(own, [piece for piece in new if not piece.is_fresh])
    own.move({one.priority: one.end for one in new if one.is_fresh})
    rows = [
        NewClaimRow(one.priority, one.start, one.end, one.attempts, own.reader.token) for one in new
    ]
    for piece, (number, epoch) in zip(new, own.put(rows, found.free), strict=True):
        taken[piece] = ClaimedRange(number, epoch, piece)
    return [taken[piece] for piece in pieces if piece in taken]


def _take_over(
    own: ReaderRows, piece: ClaimRange, held: ExpiredRange, nacked: frozenset[int], free: list[int]
) -> ClaimedRange | None:
    """An expired range, or its beginning; the rest stays expired. None when its owner has
    committed or renewed it since we looked."""
    epoch = new_epoch()
    count = own.session.run(
        f"UPDATE {own.claims} SET token=%s, epoch=%s, attempts=attempts+1, end_id=%s, "
        f"lease_until_ms={NOW}+%s WHERE id=%s AND epoch=%s AND end_id=%s "
        f"AND lease_until_ms<{NOW}",
        (own.reader.token, epoch, piece.end, own.reader.lease_ms, held.id, held.epoch, held.end),
    )
    if not count:
        return None
    if piece.end < held.end:
        rest = NewClaimRow(piece.priority, piece.end + 1, held.end, held.attempts, nacked=nacked)
        own.put([rest], free)
    return ClaimedRange(held.id, epoch, piece, nacked)


def give_back(own: ReaderRows, unread: Sequence[tuple[ClaimedRange, int]]) -> None:
    """What did not fit into a batch: each range is ours up to an id, the rest anybody's."""
    with own.session.transaction():
        for claimed, last in unread:
            piece = claimed.piece
            change = "end_id=%s" if last >= piece.start else FREE
            values: tuple[object, ...] = (last,) if last >= piece.start else ()
            count = own.session.run(
                f"UPDATE {own.claims} SET {change} WHERE id=%s AND epoch=%s",
                (*values, claimed.id, claimed.epoch),
            )
            if not count:
                raise own.lost()
            rest = NewClaimRow(
                piece.priority, last + 1, piece.end, piece.attempts - 1, nacked=claimed.nacked
            )
            own.put([rest], [])


_ROUNDS: Final = 8  # of claims for one read, when tombstones have made the first too small


def read(
    own: ReaderRows,
    bounds: TopicBounds,
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
            take, own, bounds, room, acks,
            released=released, counts_messages=turn > 0,
        )  # fmt: skip
        taken, is_all = own.session.repeat(claim)  # here, because earlier rounds are committed
        acks.clear()
        messages += messages_of(own, taken, bodies)
        held += taken
        if len(messages) >= batch or bodies.is_full or is_all:
            break
    return result(own, messages, held)


def result(own: ReaderRows, messages: list[StoredMessage], held: list[ClaimedRange]) -> ReadResult:
    keys = [(one.id, one.epoch) for one in held]
    if not messages:
        if held:  # nothing but tombstones
            own.commit(keys)
        return ReadResult()
    messages.sort(key=lambda one: BY_URGENCY.index(one.priority))
    return ReadResult(tuple(messages), (KIND, own.reader.group, keys))


def messages_of(
    own: ReaderRows, taken: list[ClaimedRange], bodies: BodyReader
) -> list[StoredMessage]:
    """The messages of ranges; ranges that do not fit in one batch are released."""
    found: list[StoredMessage] = []
    unread: list[tuple[ClaimedRange, int]] = []
    for claimed in tuple(taken):
        piece = claimed.piece
        table = tables.messages(own.topic, piece.priority)
        rows, end = bodies.range(own.session, table, piece.start, piece.end)
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
        give_back(own, unread)
    return found
