"""Claims of a consumer group: the state machine of what its members read. Pure; ``now`` is in ms.

Members read ranges of messages as a claim with a lease. Invariants, for every partition:

1. Every offset below ``next`` that is not done is in exactly one claim, or returned (its claim is
   void and no other has it yet). Offsets from ``next`` on were never handed out.
2. A nacked message is done in its partition and lives on in ``retries``: waiting, held by a claim,
   or dead. A range of reason RETRY names one such message and never changes ``done``.
3. A claim belongs to one token. Commit, nack and renew by any other token raise ClaimLost and
   change nothing.
4. Commit and nack need a lease that has not ended. An ended lease alone gives nothing away: the
   claim stays, and renew revives it, until another member is handed one of its messages. Only then
   is it void, as a whole, and what is left of it is returned.
5. A claim is committed at most once: it is removed by the commit.
6. An offset reset voids all claims of the group; retries of the priorities it names are dropped,
   dead messages stay.
7. ``_first_end`` is never later than the end of any lease, so nothing is scanned before it.

``ProgressChanges`` names what a caller must store before it replies. Claims and leases are not
stored: after a restart everything that is not done counts as handed out before (suspect()).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.intervals import Intervals
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import (
    Bound,
    Bounds,
    ClaimReason,
    OffsetRange,
    Partition,
    fill,
)
from headrace.model.topics.retries import GroupRetries, Place, Retry

_LOST = "the claim is not yours any more: its lease ended, or a seek or restart made it void; "
_AGAIN = "its messages are handed out again, so read again"
_NEVER = 1 << 62
_LATE = "the lease of the claim has ended; nothing was changed, its messages are handed out again"


@dataclass(slots=True)
class PartitionProgress:
    """How far a group is in one partition."""

    next: int = 0  # the lowest offset that was never handed out
    done: Intervals = field(default_factory=Intervals)

    def skip_to(self, first: int) -> None:
        """What lies before ``first`` is not there any more."""
        self.next = max(self.next, first)
        self.done.add(0, first)


@dataclass(slots=True)
class Claim:
    """What one member has taken."""

    token: str
    until: int
    spans: list[OffsetRange]
    given_back: set[Place] = field(default_factory=set)

    def holds(self, span: OffsetRange) -> bool:
        """Whether some of these messages are the claim's, and were not released."""
        return any(
            one.partition == span.partition
            and one.start < span.stop
            and span.start < one.stop
            and not (
                span.source is ClaimReason.RETRY and (span.partition, span.start) in self.given_back
            )
            for one in self.spans
        )


@dataclass(slots=True)
class ProgressChanges:
    """What has to be noted on disk."""

    partitions: set[Partition] = field(default_factory=set)
    retries: set[Place] = field(default_factory=set)  # added, changed, or gone

    def add(self, other: ProgressChanges) -> None:
        self.partitions |= other.partitions
        self.retries |= other.retries


class GroupClaims:
    """One group. Reading is plan(), then take() of what could be read of the plan."""

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionProgress] = {}
        self.retries = GroupRetries()
        self._claims: dict[int, Claim] = {}
        self._first_end = _NEVER  # no lease ends before: thousands of claims are not looked at
        self._returned: dict[Partition, list[OffsetRange]] = {}  # of void claims, by offset
        self._members: dict[str, int] = {}  # token -> until when it counts as one
        self._turn = 0  # which partition comes first in the next plan

    # -- reading ---------------------------------------------------------------------------------

    def plan(self, room: int, min_share: int, now: int, bounds: Bounds) -> list[OffsetRange]:
        """What to hand out next: ``room`` messages if there are as many. Changes nothing."""
        for partition, bound in bounds.items():
            self._progress(partition).skip_to(bound.first)
        waiting = {
            priority: self._claimable(priority, room, now, bounds) for priority in BY_URGENCY
        }
        return fill(waiting, room, min_share)

    def _claimable(
        self, priority: Priority, room: int, now: int, bounds: Bounds
    ) -> list[OffsetRange]:
        """What could be handed out, enough to fill the room: what others left, what is due again,
        what is new."""
        again = [
            OffsetRange(partition, low, high, span.attempts + 1, ClaimReason.AGAIN)
            for partition in self._partitions_of(priority, bounds)
            for span in sorted(self._left_over(partition, now), key=_start)
            for low, high in self._left(span, bounds[partition])
        ]
        due = [
            OffsetRange(partition, offset, offset + 1, known.attempts + 1, ClaimReason.RETRY)
            for partition, offset in self._due(priority, now, room)
            if (known := self.retries.get((partition, offset))) is not None
            and offset < bounds.get(partition, Bound(0, 0)).end
        ]
        fresh = [
            OffsetRange(partition, start, bounds[partition].end)
            for partition in self._partitions_of(priority, bounds)
            if (start := self.partitions[partition].next) < bounds[partition].end
        ]
        return again + due + fresh

    def _partitions_of(self, priority: Priority, bounds: Bounds) -> list[Partition]:
        partitions = sorted(partition for partition in bounds if partition.priority == priority)
        turn = self._turn % max(1, len(partitions))
        return partitions[turn:] + partitions[:turn]

    def _left_over(self, partition: Partition, now: int) -> list[OffsetRange]:
        """Spans of void claims, and of those past their lease."""
        expired = [
            span
            for claim in self._past_lease(now)
            for span in claim.spans
            if span.partition == partition and span.source is not ClaimReason.RETRY
        ]
        return [*self._returned.get(partition, ()), *expired]

    def _due(self, priority: Priority, now: int, room: int) -> list[Place]:
        """The same for messages that are tried again, one by one; enough to fill the room."""
        expired = [
            (span.partition, span.start)
            for claim in self._past_lease(now)
            for span in claim.spans
            if span.source is ClaimReason.RETRY
            and span.partition.priority == priority
            and (span.partition, span.start) not in claim.given_back
        ]
        return [*expired, *self.retries.due(priority, now, room)]

    def _past_lease(self, now: int) -> list[Claim]:
        if now < self._first_end:
            return []
        self._first_end = min((claim.until for claim in self._claims.values()), default=_NEVER)
        return [claim for claim in self._claims.values() if claim.until <= now]

    def _left(self, span: OffsetRange, bound: Bound) -> Iterable[tuple[int, int]]:
        done = self.partitions[span.partition].done
        return done.missing(max(span.start, bound.first), min(span.stop, bound.end))

    def take(
        self, number: int, token: str, spans: Sequence[OffsetRange], now: int, lease_ms: int
    ) -> None:
        """Hand out what was planned, or less of it, as claim ``number``."""
        self._void(self._overtaken(spans, now), now)
        for span in spans:
            if span.source is ClaimReason.RETRY:
                self.retries.hold((span.partition, span.start))
            elif span.source is ClaimReason.AGAIN:
                self._take_returned(span)
            else:
                self.partitions[span.partition].next = span.stop
        self._claims[number] = Claim(token, now + lease_ms, list(spans))
        self._first_end = min(self._first_end, now + lease_ms)
        self._members[token] = now + lease_ms
        self._turn += 1

    def skip(self, span: OffsetRange, now: int) -> ProgressChanges:
        """Nothing of the planned span can be read, ever: it counts as done."""
        self._void(self._overtaken([span], now), now)
        if span.source is ClaimReason.RETRY:
            self.retries.finish((span.partition, span.start))
            return ProgressChanges(retries={(span.partition, span.start)})
        progress = self.partitions[span.partition]
        progress.done.add(span.start, span.stop)
        progress.next = max(progress.next, span.stop)
        return ProgressChanges(partitions={span.partition})

    def _overtaken(self, spans: Iterable[OffsetRange], now: int) -> list[int]:
        """Claims past their lease of which something is handed out again."""
        wanted = [span for span in spans if span.source is not ClaimReason.FRESH]
        if not wanted or now < self._first_end:
            return []
        return [
            number
            for number, claim in self._claims.items()
            if claim.until <= now and any(claim.holds(span) for span in wanted)
        ]

    def _take_returned(self, span: OffsetRange) -> None:
        left = []
        for one in self._returned.get(span.partition, ()):
            if one.stop <= span.start or span.stop <= one.start:
                left.append(one)
                continue
            if one.start < span.start:
                left.append(one._replace(stop=span.start))
            if span.stop < one.stop:
                left.append(one._replace(start=span.stop))
        self._returned[span.partition] = left

    def mark_dead(self, max_attempts: int, now: int, bounds: Bounds, room: int) -> ProgressChanges:
        """Give up what was handed out ``max_attempts`` times and comes up again, as far as it
        would be in a plan for the room."""
        changed = ProgressChanges()
        for partition, bound in bounds.items():
            worn = [one for one in self._left_over(partition, now) if one.attempts >= max_attempts]
            again = [span._replace(source=ClaimReason.AGAIN) for span in worn]
            self._void(self._overtaken(again, now), now)
            for span in worn:
                for low, high in list(self._left(span, bound)):
                    self._give_up(partition, range(low, high), span.attempts, now, changed)
                self._take_returned(span)
        for priority in BY_URGENCY:
            while worn_out := self._worn_out(priority, max_attempts, now, room):
                for place, known in worn_out:
                    self._void(self._overtaken([_retry_span(*place)], now), now)
                    reason = known.reason or _worn_out(known.attempts)
                    dead = Retry(known.attempts, now, dead=True, reason=reason)
                    self.retries.put(place, dead)
                    changed.retries.add(place)
        return changed

    def _worn_out(
        self, priority: Priority, max_attempts: int, now: int, room: int
    ) -> list[tuple[Place, Retry]]:
        found = ((place, self.retries.get(place)) for place in self._due(priority, now, room))
        return [
            (place, known)
            for place, known in found
            if known is not None and not known.dead and known.attempts >= max_attempts
        ]

    def _give_up(
        self,
        partition: Partition,
        offsets: range,
        attempts: int,
        now: int,
        changed: ProgressChanges,
    ) -> None:
        self.partitions[partition].done.add(offsets.start, offsets.stop)
        changed.partitions.add(partition)
        for offset in offsets:
            dead = Retry(attempts, now, dead=True, reason=_worn_out(attempts))
            self.retries.put((partition, offset), dead)
            changed.retries.add((partition, offset))

    # -- what members say ------------------------------------------------------------------------

    def commit(self, number: int, token: str, now: int) -> ProgressChanges:
        """The claim's messages are done; ClaimLost when it is not this member's any more."""
        claim = self._live(number, token, now)
        del self._claims[number]
        changed = ProgressChanges()
        for span in claim.spans:
            if span.source is ClaimReason.RETRY:
                place = (span.partition, span.start)
                if place not in claim.given_back and self.retries.finish(place):
                    changed.retries.add(place)
            else:
                self.partitions[span.partition].done.add(span.start, span.stop)
                changed.partitions.add(span.partition)
        return changed

    def nack(
        self,
        number: int,
        token: str,
        places: Sequence[Place] | None,
        *,
        due: int,
        now: int,
        max_attempts: int,
        reason: str = "",
    ) -> ProgressChanges:
        """These are to be tried again, or are dead; all or nothing. None: the whole claim, which
        ends with that."""
        claim = self._live(number, token, now)
        is_whole = places is None
        if places is None:
            spans = claim.spans
            places = [(one.partition, at) for one in spans for at in range(one.start, one.stop)]
        found = list(zip(places, _spans_with(claim, places), strict=True))
        changed = ProgressChanges()
        for (partition, offset), span in found:
            dead = span.attempts >= max_attempts
            retry = Retry(span.attempts, now if dead else due, dead=dead, reason=reason)
            if (partition, offset) in claim.given_back:
                continue
            claim.given_back.add((partition, offset))
            self.retries.put((partition, offset), retry)
            changed.retries.add((partition, offset))
            if span.source is not ClaimReason.RETRY:
                self.partitions[partition].done.add(offset, offset + 1)
                changed.partitions.add(partition)
        if is_whole:
            changed.add(self.commit(number, token, now))
        return changed

    def renew(self, number: int, token: str, now: int, lease_ms: int) -> None:
        """Restart the lease, even an expired one, while no other member has the messages."""
        self._claim(number, token).until = now + lease_ms
        self._first_end = min(self._first_end, now + lease_ms)
        self._members[token] = now + lease_ms

    def seek(self, positions: Mapping[Partition, int], now: int) -> ProgressChanges:
        """Go on at these offsets; all claims are void, and what was to be tried again is not."""
        self._void(list(self._claims), now)
        for partition, offset in positions.items():
            self.partitions[partition] = PartitionProgress(offset, Intervals(offset))
            self._returned.pop(partition, None)
        gone = self.retries.forget(priorities=frozenset(priority for priority, _ in positions))
        return ProgressChanges(set(positions), set(gone))

    def _claim(self, number: int, token: str) -> Claim:
        claim = self._claims.get(number)
        if claim is None or claim.token != token:
            raise ClaimLost(_LOST + _AGAIN)
        return claim

    def _live(self, number: int, token: str, now: int) -> Claim:
        claim = self._claim(number, token)
        if claim.until <= now:
            raise ClaimLost(_LATE)
        return claim

    def _void(self, numbers: Iterable[int], now: int) -> None:
        """What the claims had is there for others."""
        for number in numbers:
            claim = self._claims.pop(number)
            for span in claim.spans:
                if span.source is ClaimReason.RETRY:
                    self.retries.give_back((span.partition, span.start), now)
                    continue
                pool = self._returned.setdefault(span.partition, [])
                done = self.partitions[span.partition].done
                pool += [
                    span._replace(start=low, stop=high)
                    for low, high in done.missing(span.start, span.stop)
                ]
                pool.sort(key=_start)

    # -- what is known ---------------------------------------------------------------------------

    def begin(self, partition: Partition, offset: int) -> None:
        """A new group begins there."""
        self.partitions[partition] = PartitionProgress(offset, Intervals(offset))

    def restore(self, partition: Partition, floor: int, ranges: Iterable[tuple[int, int]]) -> None:
        self.partitions[partition] = PartitionProgress(floor, Intervals(floor, ranges))

    def suspect(self, partition: Partition, stop: int) -> None:
        """At start: what is not done below ``stop`` may have been handed out before."""
        progress = self._progress(partition)
        spans = [OffsetRange(partition, low, high) for low, high in progress.done.missing(0, stop)]
        self._returned[partition] = spans
        progress.next = max(progress.next, stop)

    def members(self, now: int) -> tuple[str, ...]:
        """Tokens that have read lately, or hold a claim."""
        holders = {claim.token for claim in self._claims.values()}
        self._members = {
            token: until
            for token, until in self._members.items()
            if until > now or token in holders
        }
        return tuple(sorted(self._members))

    def claimed(self, priority: Priority, now: int) -> int:
        """How many messages are with members whose lease has not ended."""
        return sum(
            (span.partition, span.start) not in claim.given_back
            if span.source is ClaimReason.RETRY
            else self.partitions[span.partition].done.count_missing(span.start, span.stop)
            for claim in self._claims.values()
            if claim.until > now
            for span in claim.spans
            if span.partition.priority == priority
        )

    def next_event(self) -> int | None:
        """When something may become readable without anybody doing anything."""
        moments = [claim.until for claim in self._claims.values()]
        due = self.retries.next_due()
        return min([*moments, *([] if due is None else [due])], default=None)

    def _progress(self, partition: Partition) -> PartitionProgress:
        progress = self.partitions.get(partition)
        if progress is None:
            progress = self.partitions[partition] = PartitionProgress()
        return progress


def _spans_with(claim: Claim, places: Sequence[Place]) -> list[OffsetRange]:
    """The span of each. Messages that are tried again are a span each, thousands in a claim."""
    if len(places) == 1:
        return [_span_with(claim.spans, places[0])]
    single = {(one.partition, one.start): one for one in claim.spans if one.stop == one.start + 1}
    wide = [one for one in claim.spans if one.stop > one.start + 1]
    return [single.get(place) or _span_with(wide, place) for place in places]


def _span_with(spans: Sequence[OffsetRange], place: Place) -> OffsetRange:
    partition, offset = place
    for span in spans:
        if span.partition == partition and span.start <= offset < span.stop:
            return span
    raise BadTopicValue("a message to retry is not in this claim")


def _retry_span(partition: Partition, offset: int) -> OffsetRange:
    return OffsetRange(partition, offset, offset + 1, source=ClaimReason.RETRY)


def _start(span: OffsetRange) -> int:
    return span.start


def _worn_out(attempts: int) -> str:
    return f"handed out {attempts} times without a commit"
