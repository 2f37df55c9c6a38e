"""Reading as a member of a group: claim ranges, then fetch their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import tables
from headrace.store.mysql.bodies import BodyReader, is_message
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.groups import claims, group_rows
from headrace.store.mysql.message_rows import message_of
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.topics.engine import ConsumerSpec, StoredMessage, Taken

_ROUNDS: Final = 8  # of claims for one read, when tombstones have made the first too small


def read(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    bounds: Mapping[Priority, Bounds],
    batch: int,
    bodies: BodyReader,
    acks: Sequence[group_rows.Key] = (),
) -> Taken:
    """Commit ``acks``, and take up to ``batch`` messages."""
    messages: list[StoredMessage] = []
    held: list[claims.ClaimedRange] = []
    for turn in range(_ROUNDS):
        room = batch - len(messages)
        take = partial(
            claims.take, session, topic, reader, bounds, room, acks, counts_messages=turn > 0
        )
        taken, is_all = session.repeated(take)  # here, because earlier rounds are committed
        acks = ()
        messages += _messages(session, topic, reader, taken, bodies)
        held += taken
        if len(messages) >= batch or bodies.is_full or is_all:
            break
    if not messages:
        if held:  # nothing but tombstones
            group_rows.commit(session, topic, reader, [(one.id, one.epoch) for one in held])
        return Taken()
    messages.sort(key=lambda one: BY_URGENCY.index(one.lane))
    return Taken(tuple(messages), (group_rows.KIND, reader.group, [one.as_data() for one in held]))


def _messages(
    session: DbConnection,
    topic: str,
    reader: ConsumerSpec,
    taken: list[claims.ClaimedRange],
    bodies: BodyReader,
) -> list[StoredMessage]:
    """The messages of ranges; ranges that are too much for one batch are given back."""
    found: list[StoredMessage] = []
    unread: list[tuple[claims.ClaimedRange, int]] = []
    for claimed in tuple(taken):
        piece = claimed.piece
        table = tables.messages(topic, piece.lane)
        rows, end = bodies.range(session, table, piece.start, piece.end)
        found += [
            message_of(row, piece.lane, piece.attempts)
            for row in rows
            if is_message(row) and row[0] not in claimed.nacked
        ]
        if end < piece.end:
            unread.append((claimed, end))
            if end < piece.start:
                taken.remove(claimed)
    if unread:
        claims.give_back(session, topic, reader, unread)
    return found
