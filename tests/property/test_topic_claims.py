"""Groups that read by claims: whatever members do, nothing is lost and nothing is done twice."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from headrace.errors import BadTopicValue, ClaimLost
from headrace.model.topics.claims import GroupClaims
from headrace.model.topics.message_priority import BY_URGENCY, Priority, shares
from headrace.model.topics.partitions import Bound, ClaimReason, OffsetRange, Partition
from headrace.model.topics.retries import Place

PARTITIONS: list[Partition] = [
    Partition(priority, index) for priority in Priority for index in (0, 1)
]
MEMBERS = ("ann", "bob", "cid")
MAX_ATTEMPTS = 3
EVERYTHING = 10_000
Given = tuple[int, str]  # the number of a claim, whose it is


class Held:
    """What the test knows of a claim."""

    def __init__(self, token: str, until: int, places: dict[Place, int]) -> None:
        self.token = token
        self.until = until
        self.places = places  # with the attempts they were handed out with


class GroupMachine(RuleBasedStateMachine):
    """A group, and a plain account of what became of every message."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.group = GroupClaims()
        self.now = 0
        self.bounds: dict[Partition, Bound] = {}
        self.numbers = 0
        self.held: dict[int, Held] = {}
        self.done: set[Place] = set()
        self.dead: set[Place] = set()
        self.waiting: dict[Place, tuple[int, int]] = {}  # given back: due, attempts
        self.attempts: dict[Place, int] = {}  # as handed out last

    # -- messages come and go

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 6))
    def append(self, partition: Partition, count: int) -> None:
        bound = self.bounds.get(partition, Bound(0, 0))
        self.bounds[partition] = Bound(bound.first, bound.end + count)

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def remove_the_oldest(self, partition: Partition, count: int) -> None:
        bound = self.bounds.get(partition, Bound(0, 0))
        self.bounds[partition] = Bound(min(bound.first + count, bound.end), bound.end)

    @rule(ms=st.integers(1, 40))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    # -- members read

    @rule(
        target=claims,
        token=st.sampled_from(MEMBERS),
        room=st.integers(1, 9),
        share=st.sampled_from((0, 0, 25)),
        less=st.integers(0, 4),
        lease=st.integers(1, 50),
    )
    def read(self, token: str, room: int, share: int, less: int, lease: int) -> Given:
        self._expect_buried(
            self.group.mark_dead(MAX_ATTEMPTS, self.now, self.bounds, EVERYTHING).retries
        )
        free = self._free()
        plan = self.group.plan(room, share, self.now, self.bounds)
        sizes = {
            priority: sum(place[0][0] == priority for place in free) for priority in BY_URGENCY
        }
        wanted = shares(sizes, room, share)
        planned = {
            priority: sum(s.size for s in plan if s.partition.priority == priority)
            for priority in BY_URGENCY
        }
        assert planned == wanted
        assert [s.partition.priority for s in plan] == sorted(
            (s.partition.priority for s in plan), key=BY_URGENCY.index
        )
        taken = _shortened(plan, less)
        self.numbers += 1
        if not taken:
            return self.numbers, token
        places = _places(taken)
        assert set(places) <= free, "somebody has it, or it is done"
        for place, attempts in places.items():
            assert attempts == self.attempts.get(place, 0) + 1
        self._forget_overtaken(set(places))
        self.group.take(self.numbers, token, taken, self.now, lease)
        self.held[self.numbers] = Held(token, self.now + lease, places)
        self.attempts |= places
        for place in places:
            self.waiting.pop(place, None)
        return self.numbers, token

    def _free(self) -> set[Place]:
        """What may be handed out now."""
        busy = {place for one in self.held.values() if one.until > self.now for place in one.places}
        everything = {
            (partition, offset)
            for partition, bound in self.bounds.items()
            for offset in range(bound.first, bound.end)
        }
        later = {place for place, (due, _) in self.waiting.items() if due > self.now}
        # Retries are not checked against the first offset: whoever reads finds out.
        kept = {place for place in [*self.waiting, *self._held_retries()] if self._is_there(place)}
        return ((everything - self.done) | kept) - busy - later - self.dead

    def _held_retries(self) -> list[Place]:
        return [
            place
            for one in self.held.values()
            for place in one.places
            if self.group.retries.get(place) is not None
        ]

    def _is_there(self, place: Place) -> bool:
        partition, offset = place
        return offset < self.bounds[partition].end

    def _forget_overtaken(self, places: set[Place]) -> None:
        """Claims of which something is handed out to somebody else are void."""
        for number in [n for n, one in self.held.items() if places & set(one.places)]:
            assert self.held[number].until <= self.now
            self._void(number)

    def _void(self, number: int) -> None:
        one = self.held.pop(number)
        for place in one.places:
            if self.group.retries.get(place) is not None and place not in self.dead:
                self.waiting.setdefault(place, (self.now, self.attempts[place]))

    def _expect_buried(self, changed: set[Place]) -> None:
        buried = {place for place in changed if place not in self.dead}
        for place in buried:
            known = self.group.retries.get(place)
            assert known is not None and known.dead
            assert self.attempts[place] >= MAX_ATTEMPTS
        self._forget_overtaken(buried)
        self.dead |= buried
        self.done |= buried
        for place in buried:
            self.waiting.pop(place, None)

    # -- members answer

    @rule(given=consumes(claims))
    def commit(self, given: Given) -> None:
        number, token = given
        if not self._counts(number):
            with pytest.raises(ClaimLost):
                self.group.commit(number, token, self.now)
            return
        self.group.commit(number, token, self.now)
        one = self.held.pop(number)
        self.done |= set(one.places)
        with pytest.raises(ClaimLost):
            self.group.commit(number, token, self.now)

    def _counts(self, number: int) -> bool:
        """Nobody took it over, and its lease has not ended."""
        return number in self.held and self.held[number].until > self.now

    @rule(given=claims, delay=st.integers(0, 60), which=st.integers(0, 8))
    def give_back(self, given: Given, delay: int, which: int) -> None:
        number, token = given
        if not self._counts(number):
            with pytest.raises(ClaimLost):
                self.group.nack(number, token, [], due=0, now=self.now, max_attempts=1)
            return
        one = self.held[number]
        if not one.places:
            return
        place = sorted(one.places)[which % len(one.places)]
        self.group.nack(
            number, token, [place], due=self.now + delay, now=self.now, max_attempts=MAX_ATTEMPTS
        )
        attempts = one.places.pop(place)
        self.done.add(place)
        if attempts >= MAX_ATTEMPTS:
            self.dead.add(place)
        else:
            self.waiting[place] = (self.now + delay, attempts)

    @rule(given=claims)
    def give_back_something_else(self, given: Given) -> None:
        number, token = given
        if self._counts(number):
            with pytest.raises(BadTopicValue):
                self.group.nack(
                    number, token, [(PARTITIONS[0], 1 << 30)], due=0, now=self.now, max_attempts=1
                )

    @rule(given=claims, lease=st.integers(1, 50))
    def renew(self, given: Given, lease: int) -> None:
        number, token = given
        if number in self.held:
            self.group.renew(number, token, self.now, lease)
            self.held[number].until = self.now + lease
        else:
            with pytest.raises(ClaimLost):
                self.group.renew(number, token, self.now, lease)

    @rule(given=claims)
    def somebody_else_commits(self, given: Given) -> None:
        with pytest.raises(ClaimLost):
            self.group.commit(given[0], "eve", self.now)

    @rule(partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 20))
    def seek(self, partition: Partition, offset: int) -> None:
        bound = self.bounds.get(partition)
        if bound is None:
            return
        offset = min(max(offset, bound.first), bound.end)
        self.group.seek({partition: offset}, self.now)
        for number in list(self.held):
            self._void(number)
        for place in [p for p in self.waiting if p[0][0] == partition.priority]:
            del self.waiting[place]
        for at in range(bound.end):
            place = (partition, at)
            self.attempts.pop(place, None)
            if place in self.dead and at >= offset:
                self.dead.discard(place)
            (self.done.add if at < offset else self.done.discard)(place)

    # -- always

    @invariant()
    def what_is_done_is_known_as_done(self) -> None:
        for partition, progress in self.group.partitions.items():
            bound = self.bounds.get(partition, Bound(0, 0))
            for offset in range(bound.first, bound.end):
                assert (offset in progress.done) == ((partition, offset) in self.done)


def _shortened(plan: list[OffsetRange], less: int) -> list[OffsetRange]:
    """The plan without some messages at its end, as when they are too large."""
    left = list(plan)
    while less and left:
        last = left.pop()
        if last.size > less:
            return [*left, last._replace(stop=last.stop - less)]
        less -= last.size
    return left


def _places(spans: list[OffsetRange]) -> dict[Place, int]:
    found: dict[Place, int] = {}
    for span in spans:
        for offset in range(span.start, span.stop):
            place = (span.partition, offset)
            assert place not in found, "twice in one batch"
            found[place] = span.attempts
        assert span.source is not ClaimReason.RETRY or span.size == 1
    return found


TestGroup = GroupMachine.TestCase
