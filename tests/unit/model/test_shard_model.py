"""Every order of moves of owner, zombie, standbys and database, with each guard in turn removed.

The database keeps versions of one row and the set of stored messages. It works with row locks, as
one server does, or by certification, as Galera and Group Replication do: a transaction may read a
version that is not the latest, and is refused at its commit when the row has changed since. Answers
of commits are lost, commits arrive late, nodes die with a transaction open, and the database goes
back to an earlier version once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from headrace.model.shard_ownership import (
    CommitOutcome,
    ShardRow,
    has_lost_commits,
    judge_commit,
    may_commit,
    may_take,
    snapshot_is_complete,
    taken_over,
)

Messages = frozenset[int]
NONE: Messages = frozenset()


class Version(NamedTuple):
    """What is committed at one time."""

    row: ShardRow
    log: Messages
    starts: tuple[tuple[int, int], ...]  # epoch, the seq it began with

    def start_after(self, epoch: int) -> int | None:
        return dict(self.starts).get(epoch + 1)


class Transaction(NamedTuple):
    """Between its update and its commit."""

    node: int
    read: ShardRow  # the row on which its condition held
    after: ShardRow
    delta: Messages
    is_take_over: bool
    is_late: bool = False  # its client has given it up, the server has not


class Node(NamedTuple):
    state: str  # standby, taking, asking (taking, answer lost), recovering, serving, committing,
    #             judging (committing, answer lost), stopped, dead
    incarnation: str
    row: ShardRow = ShardRow(-1, -1)  # as last seen or left
    log: Messages = NONE
    delta: Messages = NONE  # being committed

    @property
    def is_alive(self) -> bool:
        return self.state not in ("stopped", "dead")


class World(NamedTuple):
    versions: tuple[Version, ...]  # the latest last
    open: tuple[Transaction, ...]
    nodes: tuple[Node, ...]
    confirmed: Messages = NONE
    sent: int = 0
    kills: int = 0
    went_back: bool = False
    knowers: frozenset[int] = frozenset()  # nodes that saw what the database has lost
    is_reported: bool = False  # a node stopped with an error because the database went back
    is_excused: bool = False  # all that knew have died

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    def with_node(self, number: int, node: Node) -> World:
        nodes = (*self.nodes[:number], node, *self.nodes[number + 1 :])
        return self._replace(nodes=nodes)

    def without(self, transaction: Transaction) -> World:
        return self._replace(open=tuple(one for one in self.open if one is not transaction))


class Violation(Exception):
    """A promise is broken; the last argument is the world."""


class Guards:
    """The rules as the broker uses them; tests take one out."""

    may_commit = staticmethod(may_commit)
    judge_commit = staticmethod(judge_commit)
    may_take = staticmethod(may_take)
    snapshot_is_complete = staticmethod(snapshot_is_complete)
    has_lost_commits = staticmethod(has_lost_commits)
    reads_fresh = True
    writes_the_same_row = True  # a take-over updates the row that commits update
    ends_sessions = True
    renames_itself = True  # an incarnation takes a shard once; a second attempt is another one


KEPT = 3  # versions: the database goes back to one of them, a replica is one behind


class Bounds(NamedTuple):
    """How much happens at most."""

    standbys: int
    messages: int
    kills: int
    attempts: int  # of one node to take over


SMALL = Bounds(1, 2, 1, 2)
WIDE = Bounds(2, 1, 1, 1)
DEEP = Bounds(2, 2, 0, 1)


class Explorer:
    def __init__(self, guards: Guards, bounds: Bounds, *, certifies: bool) -> None:
        self._guards = guards
        self._bounds = bounds
        self._certifies = certifies
        owner = ShardRow(1, 1, "a")
        first = Version(owner, NONE, ((1, 1),))
        nodes = [
            Node("serving", "a", owner),
            *(Node("standby", name) for name in "bc"[: bounds.standbys]),
        ]
        self._first = World((first,), (), tuple(nodes))

    def run(self) -> int:
        """Visit every world; raises Violation. Returns how many there are."""
        seen: dict[World, list[World]] = {}
        stack = [self._first]
        while stack:
            world = stack.pop()
            if world in seen:
                continue
            self._check(world)
            seen[world] = following = list(self._moves(world))
            stack += following
        self._check_progress(seen)
        return len(seen)

    # -- promises -------------------------------------------------------------------------------

    def _check(self, world: World) -> None:
        missing = world.confirmed - world.latest.log
        if missing and not world.is_reported and not world.is_excused:
            able = [n for n in world.knowers if world.nodes[n].is_alive]
            if not able:
                raise Violation("confirmed messages are lost in silence", world)

    def _check_progress(self, seen: dict[World, list[World]]) -> None:
        """While a node is alive, some way leads to a served shard, or an error says why not."""
        before: dict[World, list[World]] = {}
        for world, following in seen.items():
            for one in following:
                before.setdefault(one, []).append(world)

        def is_good(world: World) -> bool:
            served = any(
                one.state == "serving" and one.incarnation == world.latest.row.owner
                for one in world.nodes
            )
            is_bound = any(
                one.state == "asking" and len(one.incarnation) == self._bounds.attempts
                for one in world.nodes
            )  # of this test: there are no more names
            is_over = not any(one.is_alive for one in world.nodes)
            return served or world.is_reported or is_over or is_bound

        good = {world for world in seen if is_good(world)}
        stack = list(good)
        while stack:
            for one in before.get(stack.pop(), ()):
                if one not in good:
                    good.add(one)
                    stack.append(one)
        for world in seen:
            if world not in good:
                raise Violation("the shard can never be served again", world)

    def _confirm(self, world: World, number: int) -> World:
        node = world.nodes[number]
        if not node.delta <= world.latest.log:
            raise Violation("a message was confirmed and is not stored", world)
        if world.latest.row.owner != node.incarnation:
            raise Violation("a message was confirmed that the new owner does not know", world)
        if (node.log & world.confirmed) - world.latest.log:
            raise Violation("an owner goes on over a hole in the log", world)
        done = node.row._replace(seq=node.row.seq + 1)
        after = Node("serving", node.incarnation, done, node.log | node.delta)
        return world.with_node(number, after)._replace(confirmed=world.confirmed | node.delta)

    def _stop(self, world: World, number: int, outcome: CommitOutcome) -> World:
        node = world.nodes[number]
        went_back = outcome is CommitOutcome.WENT_BACK
        if went_back and not world.went_back:
            raise Violation("a node stopped: the database went back, but it did not", world)
        if not went_back and world.latest.row.owner == node.incarnation:
            raise Violation("an owner stopped although it was not replaced", world)
        world = world.with_node(number, node._replace(state="stopped", delta=NONE))
        return world._replace(is_reported=world.is_reported or went_back)

    # -- moves ----------------------------------------------------------------------------------

    def _moves(self, world: World) -> Iterator[World]:
        for number, node in enumerate(world.nodes):
            move: Callable[[World, int], Iterator[World]] | None = getattr(
                self, f"_when_{node.state}", None
            )
            if move is not None:
                yield from move(world, number)
            if node.is_alive and world.kills < self._bounds.kills:
                yield self._kill(world, number)
        for one in world.open:
            yield from self._finish(world, one)
        if not world.went_back:
            for kept in range(1, len(world.versions)):
                yield self._go_back(world, kept)

    def _read(self, world: World) -> list[Version]:
        """What reading the row may show."""
        stale = self._certifies and not self._guards.reads_fresh
        return list(world.versions[-2:]) if stale else [world.latest]

    def _begin(
        self, world: World, number: int, condition: Callable[[ShardRow], bool], change: Transaction
    ) -> Iterator[tuple[World, bool]]:
        """The update of the row: the world after it, and whether a row was changed."""
        if not self._certifies and world.open:
            return  # waits for the lock
        for version in world.versions[-2:] if self._certifies else [world.latest]:
            if condition(version.row):
                begun = change._replace(read=version.row)
                yield world._replace(open=(*world.open, begun)), True
            else:
                yield world, False

    def _when_serving(self, world: World, number: int) -> Iterator[World]:
        node = world.nodes[number]
        delta, sent = node.delta, world.sent
        if not delta:
            if (
                sent == self._bounds.messages
            ):  # an idle owner commits too; that it changes nothing is enough here
                start = world.latest.start_after(node.row.epoch)
                outcome = self._guards.judge_commit(world.latest.row, node.row, start)
                if outcome in (CommitOutcome.FENCED, CommitOutcome.WENT_BACK):
                    yield self._stop(world, number, outcome)
                return
            delta, sent = frozenset((sent,)), sent + 1
        after = node.row._replace(seq=node.row.seq + 1)
        change = Transaction(number, node.row, after, delta, is_take_over=False)
        begun = world._replace(sent=sent)
        for found, is_changed in self._begin(
            begun, number, lambda row: self._guards.may_commit(row, node.row), change
        ):
            state = "committing" if is_changed else "judging"
            yield found.with_node(number, node._replace(state=state, delta=delta))

    def _when_judging(self, world: World, number: int) -> Iterator[World]:
        node = world.nodes[number]
        for version in self._read(world):
            start = version.start_after(node.row.epoch)
            outcome = self._guards.judge_commit(version.row, node.row, start)
            if outcome is CommitOutcome.DONE:
                yield self._confirm(world, number)
            elif outcome is CommitOutcome.REPEAT:
                yield world.with_node(number, node._replace(state="serving"))
            else:
                yield self._stop(world, number, outcome)

    def _when_standby(self, world: World, number: int) -> Iterator[World]:
        node = world.nodes[number]
        for version in self._read(world):
            row = version.row
            if node.row.epoch >= 0 and self._guards.has_lost_commits(
                row, node.row, version.start_after(node.row.epoch)
            ):
                yield self._stop(world, number, CommitOutcome.WENT_BACK)
                continue
            yield world.with_node(number, node._replace(row=row))
        if node.row.epoch < 0:
            return
        after = taken_over(node.row, node.incarnation)
        change = Transaction(number, node.row, after, NONE, is_take_over=True)
        for found, is_changed in self._begin(
            world, number, lambda row: self._guards.may_take(row, node.row), change
        ):
            if is_changed:
                yield found.with_node(number, node._replace(state="taking"))

    def _when_asking(self, world: World, number: int) -> Iterator[World]:
        node = world.nodes[number]
        for version in self._read(world):
            if version.row.owner == node.incarnation:
                yield world.with_node(number, node._replace(state="recovering", row=version.row))
            elif len(node.incarnation) < self._bounds.attempts:  # the next one under another name
                name = node.incarnation + node.incarnation[0] * self._guards.renames_itself
                yield world.with_node(number, node._replace(state="standby", incarnation=name))

    def _when_recovering(self, world: World, number: int) -> Iterator[World]:
        node = world.nodes[number]
        for version in world.versions[-2:] if self._certifies else [world.latest]:
            if self._guards.snapshot_is_complete(version.row, node.row):
                if world.confirmed & world.latest.log - version.log:
                    raise Violation("a new owner has not read all that was confirmed", world)
                yield world.with_node(number, node._replace(state="serving", log=version.log))
        if world.latest.row.owner != node.incarnation:
            start = world.latest.start_after(node.row.epoch)
            lost = self._guards.has_lost_commits(world.latest.row, node.row, start)
            outcome = CommitOutcome.WENT_BACK if lost else CommitOutcome.FENCED
            yield self._stop(world, number, outcome)

    def _finish(self, world: World, one: Transaction) -> Iterator[World]:
        node = world.nodes[one.node]
        rest = world.without(one)
        if node.state == "dead" or one.is_late:
            if self._guards.ends_sessions:
                yield rest
            if one.is_late:
                yield self._apply(rest, one)
            return
        lost = {"committing": "judging", "taking": "asking"}[node.state]
        unanswered = node._replace(state=lost)
        if not any(other.is_late for other in rest.open):
            late = rest._replace(open=(*rest.open, one._replace(is_late=True)))
            yield late.with_node(one.node, unanswered)
        applied = self._apply(rest, one)
        yield applied.with_node(one.node, unanswered)
        yield rest.with_node(one.node, unanswered)  # rolled back
        if applied is rest:
            return
        if one.is_take_over:
            yield applied.with_node(one.node, node._replace(state="recovering", row=one.after))
        else:
            yield self._confirm(applied, one.node)

    def _apply(self, world: World, one: Transaction) -> World:
        """Its commit; the same world when certification refuses it."""
        latest = world.latest
        after = one.after
        if self._certifies and latest.row != one.read:
            if self._guards.writes_the_same_row or latest.row.owner == one.read.owner:
                return world
            after = latest.row
        starts = latest.starts
        if one.is_take_over:
            starts = (*starts, (after.epoch, after.seq))
        made = Version(after, latest.log | one.delta, starts)
        return world._replace(versions=(*world.versions, made)[-KEPT:])

    def _kill(self, world: World, number: int) -> World:
        killed = world.with_node(number, world.nodes[number]._replace(state="dead", delta=NONE))
        knowers = world.knowers - {number}
        excused = world.is_excused or (world.went_back and not knowers)
        return killed._replace(kills=world.kills + 1, knowers=knowers, is_excused=excused)

    def _go_back(self, world: World, kept: int) -> World:
        versions = world.versions[:kept]
        row = versions[-1].row
        knowers = frozenset(
            number
            for number, node in enumerate(world.nodes)
            if node.is_alive and (node.row.epoch, node.row.seq) > (row.epoch, row.seq)
        )
        # Answers that were on their way are lost with the connections.
        nodes = tuple(
            node._replace(
                state={"committing": "judging", "taking": "asking"}.get(node.state, node.state)
            )
            for node in world.nodes
        )
        return world._replace(
            versions=versions,
            open=(),
            nodes=nodes,
            went_back=True,
            knowers=knowers,
            is_excused=not knowers,
        )


def explore(guards: Guards, bounds: Bounds, *, certifies: bool) -> int:
    return Explorer(guards, bounds, certifies=certifies).run()


@pytest.mark.parametrize("certifies", [False, True], ids=["locks", "certification"])
@pytest.mark.parametrize("bounds", [SMALL, WIDE], ids=["one standby", "two standbys"])
def test_no_order_of_moves_loses_a_confirmed_message(bounds: Bounds, certifies: bool) -> None:
    assert explore(Guards(), bounds, certifies=certifies) > 5000


class CommitsByEpoch(Guards):
    @staticmethod
    def may_commit(row: ShardRow, done: ShardRow) -> bool:
        return row.epoch == done.epoch and row.seq == done.seq


class CommitsWithoutSeq(Guards):
    @staticmethod
    def may_commit(row: ShardRow, done: ShardRow) -> bool:
        return row.owner == done.owner


class CommitsWithoutCondition(Guards):
    @staticmethod
    def may_commit(row: ShardRow, done: ShardRow) -> bool:
        return True


class TakesNoRowForFenced(Guards):
    @staticmethod
    def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
        return CommitOutcome.FENCED


class TakesLostAnswersForDone(Guards):
    @staticmethod
    def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
        return CommitOutcome.DONE


class IgnoresLostCommits(Guards):
    @staticmethod
    def has_lost_commits(row: ShardRow, seen: ShardRow, next_start: int | None) -> bool:
        return False

    @staticmethod
    def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
        if row.owner != done.owner:
            return CommitOutcome.FENCED
        return CommitOutcome.DONE if row.seq > done.seq else CommitOutcome.REPEAT


class IgnoresStartsOfEpochs(Guards):
    @staticmethod
    def has_lost_commits(row: ShardRow, seen: ShardRow, next_start: int | None) -> bool:
        return has_lost_commits(row, seen, seen.seq + 1)

    @staticmethod
    def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
        return judge_commit(row, done, done.seq + 1)


class StandbyIgnoresLostCommits(Guards):
    @staticmethod
    def has_lost_commits(row: ShardRow, seen: ShardRow, next_start: int | None) -> bool:
        return False


class IgnoresRepeatedEpochs(Guards):
    """Another owner in the epoch of one's own is taken for a later one."""

    @staticmethod
    def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
        if row.epoch == done.epoch and row.seq >= done.seq and row.owner != done.owner:
            return CommitOutcome.FENCED
        return judge_commit(row, done, next_start)


class TakesOverUnseen(Guards):
    @staticmethod
    def may_take(row: ShardRow, seen: ShardRow) -> bool:
        return True


class RecoversFromAnySnapshot(Guards):
    @staticmethod
    def snapshot_is_complete(row: ShardRow, taken: ShardRow) -> bool:
        return True


class ReadsStaleRows(Guards):
    reads_fresh = False


class TakesOverInAnotherRow(Guards):
    writes_the_same_row = False


class LeavesSessionsOpen(Guards):
    ends_sessions = False


class KeepsItsName(Guards):
    renames_itself = False


LOCKS, CERTIFICATION = False, True
RED: list[tuple[type[Guards], Bounds, bool, str]] = [
    (CommitsByEpoch, WIDE, CERTIFICATION, "a new owner has not read all that was confirmed"),
    (CommitsWithoutSeq, SMALL, LOCKS, "an owner goes on over a hole in the log"),
    (CommitsWithoutCondition, SMALL, LOCKS, "an owner goes on over a hole in the log"),
    (TakesNoRowForFenced, SMALL, LOCKS, "an owner stopped although it was not replaced"),
    (TakesLostAnswersForDone, SMALL, LOCKS, "a message was confirmed and is not stored"),
    (IgnoresLostCommits, SMALL, LOCKS, "confirmed messages are lost in silence"),
    (IgnoresStartsOfEpochs, SMALL, LOCKS, "confirmed messages are lost in silence"),
    (StandbyIgnoresLostCommits, WIDE, LOCKS, "confirmed messages are lost in silence"),
    (IgnoresRepeatedEpochs, DEEP, LOCKS, "confirmed messages are lost in silence"),
    (TakesOverUnseen, SMALL, LOCKS, "a node stopped: the database went back, but it did not"),
    (RecoversFromAnySnapshot, SMALL, CERTIFICATION, "a new owner has not read all"),
    (ReadsStaleRows, SMALL, CERTIFICATION, "a node stopped: the database went back"),
    (TakesOverInAnotherRow, SMALL, CERTIFICATION, "that the new owner does not know"),
    (LeavesSessionsOpen, SMALL, LOCKS, "the shard can never be served again"),
    (KeepsItsName, SMALL, LOCKS, "a message was confirmed and is not stored"),
]


@pytest.mark.parametrize(
    ("guards", "bounds", "certifies", "broken"), RED, ids=[one[0].__name__ for one in RED]
)
def test_without_one_guard_a_promise_breaks(
    guards: type[Guards], bounds: Bounds, certifies: bool, broken: str
) -> None:
    with pytest.raises(Violation, match=broken):
        explore(guards(), bounds, certifies=certifies)


def test_each_guard_is_taken_out_once() -> None:
    assert {one[0] for one in RED} == set(Guards.__subclasses__())
