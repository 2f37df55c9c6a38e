"""All readers of one topic: single consumers and groups. No I/O, no clock.

The rules are those of the model; what is read comes from a `TopicLog`, what has to be kept goes to
Notes. Every engine that keeps its messages itself uses this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.intervals import Intervals
from headrace.model.topics.claims import GroupClaims, ProgressChanges
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import MAX_OFFSET, Bound, Bounds, Partition, place_of
from headrace.model.topics.positions import ConsumerPositions
from headrace.model.topics.retries import Place, Retry
from headrace.store.topics.reads import (
    READ_BYTES,
    DeliveredEntries,
    TopicLog,
    messages_of,
    read_plan,
)
from headrace.store.topics.types import (
    LATEST,
    ConsumerSpec,
    GroupInfo,
    PriorityLag,
    ReadResult,
    StoredMessage,
)

FIRST_PARTITION = Partition(Priority.MIDDLE, 0)  # noted for every reader, so that it is known


class ReaderKey(NamedTuple):
    """Who: a group, or a consumer on its own (then the group is empty)."""

    group: str
    token: str


class PartitionCursor(NamedTuple):
    """Progress in one partition: everything below ``floor`` is done, and these ranges."""

    floor: int
    ranges: tuple[tuple[int, int], ...] = ()
    epoch: int = 0


class ProgressStore(Protocol):
    """Keeps what must survive a restart."""

    def cursor(self, name: ReaderKey, partition: Partition, cursor: PartitionCursor) -> None: ...

    def retry(self, group: str, place: Place, retry: Retry | None) -> None:
        """None: it is not to be tried again."""

    def forget(self, name: ReaderKey) -> None:
        """All of the reader's cursors and retries are gone."""


class TopicGroups:
    """See store.topics.engine.TopicEngine for what each call promises."""

    def __init__(
        self,
        uuid: str,
        topic_log: TopicLog,
        notes: ProgressStore,
        boot: str,
        number: Callable[[], int],
    ) -> None:
        self._uuid = uuid
        self._topic_log = topic_log
        self._notes = notes
        self._boot = boot  # claims from before this start are void
        self._number = number
        self._groups: dict[str, GroupClaims] = {}
        self._alone: dict[str, ConsumerPositions] = {}

    # -- reading ---------------------------------------------------------------------------------

    def read(
        self, reader: ConsumerSpec, batch: int, now: int, max_bytes: int = READ_BYTES
    ) -> ReadResult:
        """At most ``batch`` messages, and about ``max_bytes``."""
        if reader.group:
            return self._read_group(reader, reader.group, batch, now, max_bytes)
        return self._read_alone(reader, batch, max_bytes)

    def _read_group(
        self, reader: ConsumerSpec, name: str, batch: int, now: int, max_bytes: int
    ) -> ReadResult:
        group = self._groups.get(name) or self._new_group(name, reader.start)
        bounds = self._topic_log.bounds()
        changed = group.mark_dead(reader.max_attempts, now, bounds, batch)
        while True:
            plan = group.plan(batch, reader.min_share, now, bounds)
            read = read_plan(self._topic_log, plan, max_bytes)
            for span in read.unreadable:
                changed.add(group.skip(span, now))
            if read.pieces or not read.unreadable:
                break
        self._note(name, group, changed)
        if not read.pieces:
            return ReadResult()
        number = self._number()
        group.take(number, reader.token, read.spans, now, reader.lease_ms)
        return ReadResult(tuple(messages_of(read.pieces)), ("g", self._boot, number))

    def _read_alone(self, reader: ConsumerSpec, batch: int, max_bytes: int) -> ReadResult:
        alone = self._alone.get(reader.token) or self._new_alone(reader.token, reader.start)
        bounds = self._topic_log.bounds()
        while True:
            plan = alone.plan(batch, reader.min_share, bounds)
            read = read_plan(self._topic_log, plan, max_bytes)
            for span in read.unreadable:
                alone.skip(span)
            if read.pieces or not read.unreadable:
                break
        if not read.pieces:
            return ReadResult()
        stops = tuple(
            (int(span.partition.priority), span.partition.index, span.stop) for span in read.spans
        )
        return ReadResult(
            tuple(messages_of(read.pieces)), ("s", self._uuid, reader.token, alone.epoch, *stops)
        )

    # -- what readers say ------------------------------------------------------------------------

    def commit(self, reader: ConsumerSpec, claim: Sequence[object], now: int) -> None:
        """ClaimLost unless the claim is this reader's. Nothing to commit is no error."""
        if not claim:
            return
        if reader.group:
            group, number = self._claimed(reader.group, claim)
            self._note(reader.group, group, group.commit(number, reader.token, now))
            return
        alone, stops = self._claimed_alone(reader.token, claim)
        for partition in alone.commit(alone.epoch, stops, self._topic_log.bounds()):
            self._note_alone(reader.token, alone, partition)

    def nack(
        self,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Iterable[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str,
        now: int,
    ) -> None:
        if not reader.group:
            raise BadTopicValue("only members of a group can retry messages later")
        group, number = self._claimed(reader.group, claim)
        places = None if ids is None else [_place(priority, one) for priority, one in ids]
        changed = group.nack(
            number, reader.token, places,
            due=now + delay_ms, now=now, max_attempts=reader.max_attempts, reason=reason,
        )  # fmt: skip
        self._note(reader.group, group, changed)

    def renew(self, reader: ConsumerSpec, claim: Sequence[object], now: int) -> None:
        if reader.group:
            group, number = self._claimed(reader.group, claim)
            group.renew(number, reader.token, now, reader.lease_ms)
        else:
            self._claimed_alone(reader.token, claim)

    def seek(
        self,
        reader: ConsumerSpec,
        now: int,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        bounds = self._topic_log.bounds()
        if (positions is None) == (time_ms is None):
            raise BadTopicValue("seek to either positions or a time")
        targets: dict[Partition, int] = {}
        for partition, bound in bounds.items():
            if time_ms is not None:
                targets[partition] = self._topic_log.offset_at(partition, time_ms)
            elif positions is not None and partition.priority in positions:
                offset = _offset_after(
                    positions[partition.priority], partition.index, self._topic_log.queues
                )
                if offset is not None:
                    targets[partition] = min(max(offset, bound.first), bound.end)
        if reader.group:
            name = reader.group
            group = self._groups.get(name) or self._new_group(name, reader.start)
            self._note(name, group, group.seek(targets, now))
            return
        alone = self._alone.get(reader.token) or self._new_alone(reader.token, reader.start)
        alone.seek(targets)
        for partition in {FIRST_PARTITION, *targets}:
            self._note_alone(reader.token, alone, partition)

    def forget(self, reader: ConsumerSpec) -> None:
        """The reader's progress is deleted."""
        if reader.group:
            self._groups.pop(reader.group, None)
            self._notes.forget(ReaderKey(reader.group, ""))
        else:
            self._alone.pop(reader.token, None)
            self._notes.forget(ReaderKey("", reader.token))

    def _claimed(self, name: str, claim: Sequence[object]) -> tuple[GroupClaims, int]:
        group = self._groups.get(name)
        match list(claim):
            case ["g", self._boot, int(number)] if group is not None:
                return group, number
        raise ClaimLost("the claim is invalid: this group has no such claim since the last restart")

    def _claimed_alone(
        self, token: str, claim: Sequence[object]
    ) -> tuple[ConsumerPositions, list[tuple[Partition, int]]]:
        alone = self._alone.get(token)
        match list(claim):
            case ["s", self._uuid, str(owner), int(epoch), *stops] if (
                alone is not None and owner == token and epoch == alone.epoch
            ):
                return alone, [_stop(one) for one in stops]
        raise ClaimLost(
            "the claim is not this consumer's, or it is invalid after a seek; read again"
        )

    # -- what is known ---------------------------------------------------------------------------

    def lag(self, reader: ConsumerSpec, now: int) -> list[PriorityLag]:
        """One per priority, high first. Does not make the reader known."""
        if reader.group:
            group = self._groups.get(reader.group)
            if group is None:
                group = self._begun(GroupClaims(), reader.start)
            return [self._group_lag(group, priority, now) for priority in BY_URGENCY]
        alone = self._alone.get(reader.token) or self._begun_alone(
            ConsumerPositions(), reader.start
        )
        return self.lag_at(alone.partitions)

    def lag_at(self, offsets: Mapping[Partition, int]) -> list[PriorityLag]:
        """Of a reader that goes on at these offsets, and elsewhere at the first message."""
        return [self._lag_at(offsets, priority) for priority in BY_URGENCY]

    def groups(self, now: int) -> list[GroupInfo]:
        found = [
            GroupInfo(name, "", group.members(now), tuple(self.lag(ConsumerSpec("", name), now)))
            for name, group in sorted(self._groups.items())
        ]
        return found + [
            GroupInfo("", token, (), tuple(self.lag(ConsumerSpec(token), now)))
            for token in sorted(self._alone)
        ]

    def dead(self, group: str, limit: int) -> list[tuple[StoredMessage, str]]:
        """Messages given up, the longest dead first, with the reason."""
        claims = self._groups.get(group)
        if claims is None:
            return []
        dead = [(one.due, place, one) for place, one in claims.retries.items() if one.dead]
        found: list[tuple[StoredMessage, str]] = []
        for _, (partition, offset), one in sorted(dead, key=lambda item: item[:2])[:limit]:
            loaded, _ = self._topic_log.load(partition, offset, offset + 1, READ_BYTES)
            pieces = [DeliveredEntries(partition, one.attempts, *each) for each in loaded]
            found += [(message, one.reason) for message in messages_of(pieces)]
        return found

    def next_event(self, reader: ConsumerSpec) -> int | None:
        """When there may be something to read for the reader without a new message."""
        group = self._groups.get(reader.group) if reader.group else None
        return None if group is None else group.next_event()

    def _group_lag(self, group: GroupClaims, priority: Priority, now: int) -> PriorityLag:
        retrying, dead = group.retries.counts(priority)
        position = end = messages = 0
        oldest = group.retries.oldest(priority)
        open_places: list[Place] = [] if oldest is None else [oldest]
        for partition, bound in self._of_priority(priority):
            progress = group.partitions.get(partition)
            done = progress.done if progress is not None else Intervals()
            floor = max(done.floor, bound.first)
            position += floor
            end += bound.end
            for low, high in done.missing(floor, bound.end):
                messages += high - low
                open_places.append((partition, low))
        return PriorityLag(
            priority,
            position,
            end + 1,
            messages + retrying,
            group.claimed(priority, now),
            retrying,
            dead,
            self._oldest(open_places),
        )

    def _lag_at(self, offsets: Mapping[Partition, int], priority: Priority) -> PriorityLag:
        position = end = 0
        open_places: list[Place] = []
        for partition, bound in self._of_priority(priority):
            at = min(max(offsets.get(partition, 0), bound.first), bound.end)
            position += at
            end += bound.end
            if at < bound.end:
                open_places.append((partition, at))
        return PriorityLag(
            priority, position, end + 1, end - position, oldest_time=self._oldest(open_places)
        )

    def _of_priority(self, priority: Priority) -> list[tuple[Partition, Bound]]:
        return [
            (partition, one)
            for partition, one in self._topic_log.bounds().items()
            if partition.priority == priority
        ]

    def _oldest(self, places: Iterable[Place]) -> int | None:
        times = [self._topic_log.time_at(partition, offset) for partition, offset in places]
        return min((time for time in times if time is not None), default=None)

    # -- beginning and noting --------------------------------------------------------------------

    def _new_group(self, name: str, start: str) -> GroupClaims:
        group = self._groups[name] = self._begun(GroupClaims(), start)
        self._note(name, group, ProgressChanges({FIRST_PARTITION, *self._topic_log.bounds()}))
        return group

    def _new_alone(self, token: str, start: str) -> ConsumerPositions:
        alone = self._alone[token] = self._begun_alone(ConsumerPositions(), start)
        for partition in {FIRST_PARTITION, *self._topic_log.bounds()}:
            self._note_alone(token, alone, partition)
        return alone

    def _begun(self, group: GroupClaims, start: str) -> GroupClaims:
        for partition, offset in _starts(self._topic_log.bounds(), start).items():
            group.begin(partition, offset)
        return group

    def _begun_alone(self, alone: ConsumerPositions, start: str) -> ConsumerPositions:
        alone.partitions.update(_starts(self._topic_log.bounds(), start))
        return alone

    def _note(self, name: str, group: GroupClaims, changed: ProgressChanges) -> None:
        for place in changed.retries:
            self._notes.retry(name, place, group.retries.get(place))
        for partition in changed.partitions:
            progress = group.partitions.get(partition)
            cursor = PartitionCursor(0)
            if progress is not None:
                cursor = PartitionCursor(progress.done.floor, tuple(progress.done.ranges()))
            self._notes.cursor(ReaderKey(name, ""), partition, cursor)

    def _note_alone(self, token: str, alone: ConsumerPositions, partition: Partition) -> None:
        cursor = PartitionCursor(alone.partitions.get(partition, 0), epoch=alone.epoch)
        self._notes.cursor(ReaderKey("", token), partition, cursor)

    # -- at start --------------------------------------------------------------------------------

    def restore_cursor(
        self, name: ReaderKey, partition: Partition, cursor: PartitionCursor
    ) -> None:
        """As it was noted."""
        if name.group:
            group = self._groups.setdefault(name.group, GroupClaims())
            group.restore(partition, cursor.floor, cursor.ranges)
        else:
            alone = self._alone.setdefault(name.token, ConsumerPositions())
            alone.partitions[partition] = cursor.floor
            alone.epoch = max(alone.epoch, cursor.epoch)

    def restore_retry(self, group: str, place: Place, retry: Retry) -> None:
        self._groups.setdefault(group, GroupClaims()).retries.put(place, retry)

    def suspect(self) -> None:
        """After a restart: what groups have not done may have been handed out before."""
        bounds = self._topic_log.bounds()
        for group in self._groups.values():
            for partition, bound in bounds.items():
                group.suspect(partition, bound.end)


def _starts(bounds: Bounds, start: str) -> dict[Partition, int]:
    return {t: one.end if start == LATEST else one.first for t, one in bounds.items()}


def _place(priority: Priority, identity: int) -> Place:
    if identity < 1:
        raise BadTopicValue(f"{identity} is no message id")
    index, offset = place_of(identity)
    return Partition(priority, index), offset


def _offset_after(position: int, index: int, queues: int) -> int | None:
    """Where a partition goes on behind an id; None: the id is of another partition. An id above
    those of all partitions is behind everything, as 0 is before."""
    if position < 0:
        raise BadTopicValue(f"position {position} is refused: ids are 1 and more, 0 is the start")
    if position == 0:
        return 0
    named, offset = place_of(position)
    if named >= queues:
        return MAX_OFFSET
    return offset + 1 if named == index else None


def _stop(given: object) -> tuple[Partition, int]:
    match given:
        case [int(priority), int(index), int(stop)] if priority in Priority.__members__.values():
            return Partition(Priority(priority), index), stop
    raise ClaimLost("not a claim of this topic; read again")
