"""Reads of members of a group: the usual one in few round trips, and what leads to the full one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from headrace.cache import BoundedCache
from headrace.errors import BrokerError
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import tables
from headrace.store.mysql.context import COMMITTED, HANDED_OUT, MySqlContext
from headrace.store.mysql.groups import claims, group_rows, read_ahead, steady_reads
from headrace.store.mysql.groups.group_rows import ClaimedRange, Key, ReaderRows
from headrace.store.mysql.groups.read_ahead import IdsAhead, ReadAhead
from headrace.store.mysql.groups.steady_reads import NextIds
from headrace.store.mysql.message_rows import BodyReader, is_message, message_of
from headrace.store.mysql.stable_ids import TopicBounds
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.topics.types import ConsumerSpec, ReadResult, StoredMessage

_REMEMBERED: Final = 10_000  # rows and groups
_KEEP_S: Final = 0.2  # between updates of the offset that other programs read
_DUE_S: Final = 0.05  # between looks for what others make due, while there is something new


class GroupReads:
    """Reads of members of a group."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context
        # Rows of ranges that were committed here, by topic, group and token: the next are free.
        self._free = BoundedCache[tuple[str, str | None, str], int](_REMEMBERED)
        self._kept_at = BoundedCache[tuple[str, str | None], tuple[float, bool]](_REMEMBERED)
        self._looked_at = BoundedCache[tuple[str, str | None], float](_REMEMBERED)
        self._ahead = ReadAhead()

    def read(
        self, topic: str, reader: ConsumerSpec, limit: int, claim: Sequence[object] | None
    ) -> ReadResult:
        """Commits the claim, if there is one, in the same transaction."""
        acks = [] if claim is None else group_rows.parse(claim, reader)
        found, start = self._context.catalog.get(topic), time.monotonic()
        member = (topic, reader.group, reader.token)
        unknown = f"{COMMITTED}; {HANDED_OUT}" if acks else HANDED_OUT

        def work(session: DbConnection) -> ReadResult:
            own = ReaderRows(session, topic, reader)
            bodies = BodyReader(self._context.body_sizes)
            held: list[ClaimedRange] = []
            messages: list[StoredMessage] = []
            bounds: TopicBounds | None = None
            released: IdsAhead | None = None
            steady: tuple[ClaimedRange, bool] | IdsAhead | ReadResult | None
            steady = self._ahead.take(member)
            if steady is None:
                steady = self._steady(own, limit, acks)
                if steady is None:  # new ids may be readable now
                    bounds = session.repeat(lambda: self._context.readable(session, found))
                    steady = self._steady(own, limit, acks, for_due=True)
                self._keep_offset(own, is_idle=isinstance(steady, ReadResult))
            if isinstance(steady, IdsAhead):
                if its := self._next_ahead(own, limit, acks, steady):
                    return its
                released = steady
                self._ahead.rows.pop(member, None)  # the row is not free
            elif isinstance(steady, ReadResult):
                return steady
            elif steady is not None:
                acks.clear()
                held.append(steady[0])
                messages = claims.messages_of(own, held, bodies)
                if len(messages) >= limit or (messages and (steady[1] or bodies.is_full)):
                    return claims.result(own, messages, held)
            if bounds is None:
                bounds = session.repeat(lambda: self._context.readable(session, found))
            return claims.read(own, bounds, limit, bodies, acks, held, messages, released)

        result = self._context.run(topic, work, unknown=unknown)
        self._ahead.has_read(member, limit, start, is_full=len(result.messages) == limit)
        return result

    def _next_ahead(
        self, own: ReaderRows, limit: int, acks: list[Key], ids: IdsAhead
    ) -> ReadResult | None:
        """The next messages of those claimed ahead; None when they are to be released."""
        row = acks[0][0] if acks else self._free.get(own.member)
        if ids.is_over or len(acks) > 1 or row is None or own.reader.min_share:
            return None
        now, news = time.monotonic(), self._ahead.news(own.group, ids.priority)
        if news != ids.news or now > ids.looked_at + read_ahead.LOOK_S:
            if steady_reads.comes_first(own, ids.priority):
                return None
            ids.news, ids.looked_at = news, now
        self._keep_offset(own)
        taken = own.session.repeat(lambda: read_ahead.hand_over(own, ids, row, acks, limit))
        if taken is None:
            return None
        acks.clear()
        if ids.start <= ids.end and not self._ahead.keep(own.member, ids):
            with suppress(Fault):  # it comes back by itself
                read_ahead.release(own.session, own.topic, ids)
        messages = [message_of(one, ids.priority, 1) for one in taken[1]]
        return claims.result(own, messages, [taken[0]])

    def _steady(
        self, own: ReaderRows, limit: int, acks: list[Key], *, for_due: bool = False
    ) -> tuple[ClaimedRange, bool] | IdsAhead | ReadResult | None:
        """The next ids, claimed, and whether they are all, or those of several reads; nothing when
        there is nothing; None when it takes more than that."""
        row = acks[0][0] if acks else self._free.get(own.member)
        if len(acks) > 1 or row is None or own.reader.min_share:
            return None
        now, key = time.monotonic(), own.group
        was_idle = self._kept_at.get(key, (0.0, False))[1]  # then it would be asked next
        for_due = for_due or was_idle or now > self._looked_at.get(key, 0.0) + _DUE_S
        news = {one: self._ahead.news(key, one) for one in BY_URGENCY}
        found = steady_reads.look(own, limit, for_due=for_due)
        if found is None:
            self._looked_at.pop(key, None)  # until nothing is due any more
            return None
        if for_due:
            self._looked_at.keep(key, now)
        if isinstance(found, int):
            if acks:
                self._commit(own, acks)
            return ReadResult()
        ids = self._claim_ahead(own, found, row)
        if ids is not None:
            ids.news = news[found.priority]
            return ids
        claimed = own.session.repeat(lambda: steady_reads.claim(own, found, row, acks))
        return None if claimed is None else (claimed, found.is_all)

    def _claim_ahead(self, own: ReaderRows, found: NextIds, other: int) -> IdsAhead | None:
        """The ids of several reads, for a member that reads quickly while there are enough, in
        another row than ``other``."""
        member, sizes = own.member, self._context.body_sizes
        table = tables.messages(own.topic, found.priority)
        fitting = sizes.rows(table, read_ahead.MAX_BYTES)
        size = self._ahead.size(member, found.size, found.waiting, fitting)
        if not size:
            return None
        row = self._ahead.rows.get(member)
        if row is None:
            row = self._ahead.rows.keep(member, own.free_row(other))
        now, more = time.monotonic(), found._replace(size=size)
        claimed = own.session.repeat(
            lambda: steady_reads.claim(own, more, row, (), ahead_ms=read_ahead.LEASE_MS)
        )
        if claimed is None:
            self._ahead.rows.pop(member, None)
            return None
        piece = claimed.piece
        rows, end = BodyReader(sizes).range(own.session, table, piece.start, piece.end)
        messages = [one for one in rows if is_message(one)] if end == piece.end else []
        key = (claimed.id, claimed.epoch)
        return IdsAhead(key, piece.priority, piece.start, end, messages, (), now, now)

    def _commit(self, own: ReaderRows, ranges: Sequence[Key]) -> None:
        own.commit(ranges)
        self._free.keep(own.member, ranges[0][0])
        self._keep_offset(own)

    def _keep_offset(self, own: ReaderRows, *, is_idle: bool = False) -> None:
        """Now and then, and when the group has read everything."""
        key, now = own.group, time.monotonic()
        kept_at, was_idle = self._kept_at.get(key, (0.0, False))
        if now > kept_at + _KEEP_S or (is_idle and not was_idle):
            self._kept_at.keep(key, (now, is_idle))
            with suppress(Fault):  # what was committed before it is
                group_rows.keep_offsets(own.session, *key)

    def made_due(self, topic: str, reader: ConsumerSpec) -> None:
        """Something was nacked here: the next read looks for it."""
        self._looked_at.pop((topic, reader.group), None)
        self._ahead.note_due((topic, reader.group))

    def appended(self, topic: str, priorities: Iterable[Priority]) -> None:
        """Messages of these were stored here."""
        self._ahead.note_append(topic, priorities)

    def release(self, topic: str, reader: ConsumerSpec) -> None:
        """What the member has claimed ahead is there for others at once."""
        ids = self._ahead.take((topic, reader.group, reader.token))
        if ids is not None and not ids.is_over:
            work = partial(read_ahead.release, topic=topic, ids=ids)
            self._context.run(topic, work, repeatable=True)

    def close(self) -> None:
        for topic, group, token in self._ahead.members():
            with suppress(BrokerError):  # it comes back by itself
                self.release(topic, ConsumerSpec(token, group))

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        ranges = group_rows.parse(claim, reader)
        self._context.run(
            topic,
            lambda session: self._commit(ReaderRows(session, topic, reader), ranges),
            unknown=COMMITTED,
        )

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        ranges = group_rows.parse(claim, reader)
        self._context.run(topic, lambda session: ReaderRows(session, topic, reader).renew(ranges))
