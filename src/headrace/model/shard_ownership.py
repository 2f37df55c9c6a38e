"""Who may write a shared log: decided from one row of a database. Pure.

A shard is a whole broker whose log lies in a database. Several nodes can reach it, one of them is
its owner. Everything the owner stores goes through one kind of transaction, which first updates the
shard's row under a condition (`may_commit`); taking over updates the same row (`may_take`). So the
database orders the two: a commit of the old owner comes before the take-over, and then the new
owner reads it, or it is refused. Invariants, each checked by tests/unit/model/test_shard_model.py
against every order of moves, with every guard removed in turn:

- An incarnation is a random name of one start of one process and takes a shard at most once. Only
  the incarnation in the row commits. An epoch alone would not do: a database that went back in
  time gives the same epoch to two owners.
- ``seq`` counts commits and is compared and set. A commit whose answer was lost is judged by
  reading the row, so it is neither confirmed without being stored nor taken for refused.
- A row behind what an owner or a standby has seen means that the database went back, and so does
  a later epoch that began too early (`has_lost_commits`). Both stop with an error: going on would
  leave a hole in the log, silently.
- The row is read with the database's own guarantee that earlier commits are visible. A stale row
  looks like a database that went back.
- A new owner recovers from one snapshot in which the row is exactly as its take-over left it.
- A node that is stopped between update and commit keeps the row locked; who takes over ends that
  session first, or waits for it as long as the database keeps it.
- The owner stops delivering when no commit that it sent within the lease has succeeded. A standby
  takes over after watching the row unchanged for as long, and it saw the row later than the owner
  sent the commit. No wall clock is compared.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class ShardRow(NamedTuple):
    """The row that orders all writes of a shard."""

    epoch: int = 0  # raised by each take-over
    seq: int = 0  # raised by each commit, and by each take-over
    owner: str | None = None  # an incarnation; None: released by an orderly stop


class CommitOutcome(Enum):
    """What became of a commit that was not answered, or changed no row."""

    DONE = "done"
    REPEAT = "not done: send it again"
    FENCED = "another node has taken over: stop"
    WENT_BACK = "the database has lost commits: stop, and keep the local copy"


def may_commit(row: ShardRow, done: ShardRow) -> bool:
    """The condition of every commit; ``done`` is the row as the last one left it."""
    return row.owner == done.owner and row.seq == done.seq


def has_lost_commits(row: ShardRow, seen: ShardRow, next_start: int | None) -> bool:
    """Whether the database, now at ``row``, went back behind ``seen``.

    ``next_start`` is the ``seq`` with which the epoch after that of ``seen`` began, None if it has
    not: when the database went back and another node took over since, only that shows it.
    """
    if row.epoch > seen.epoch:
        return next_start is None or next_start <= seen.seq
    if row.epoch < seen.epoch or row.seq < seen.seq:
        return True
    return row.owner not in (seen.owner, None)  # the same epoch, given a second time


def judge_commit(row: ShardRow, done: ShardRow, next_start: int | None) -> CommitOutcome:
    """What became of the commit after ``done``; ``row`` was read, not stale, after it was sent."""
    if has_lost_commits(row, done, next_start):
        return CommitOutcome.WENT_BACK
    if row.owner != done.owner:
        return CommitOutcome.FENCED
    return CommitOutcome.DONE if row.seq > done.seq else CommitOutcome.REPEAT


def taken_over(seen: ShardRow, incarnation: str) -> ShardRow:
    """The row as a take-over leaves it."""
    return ShardRow(seen.epoch + 1, seen.seq + 1, incarnation)


def may_take(row: ShardRow, seen: ShardRow) -> bool:
    """The condition of a take-over: nothing was committed since the decision."""
    return row == seen


def snapshot_is_complete(row: ShardRow, taken: ShardRow) -> bool:
    """Whether a snapshot in which the row reads ``row`` has all that was committed before."""
    return row == taken


class StandbyDecision(Enum):
    """What a standby does after looking at the row."""

    WAIT = "the owner is at work, or was a moment ago"
    TAKE = "the shard has no owner any more"
    WENT_BACK = "the database has lost commits that this node has seen"


REFUSALS: Final = 2  # in a row, before an owner's process counts as gone


class StandbyWatch:
    """A standby's view of the owner, from what it reads every second or so."""

    def __init__(self, lease: float, *, max_step: float) -> None:
        self._lease = lease
        # Time between two looks counts up to this: a database that was unreachable between them
        # has kept the owner from committing, too.
        self._max_step = max_step
        self.seen = ShardRow(-1, -1, None)
        self._looked: float | None = None  # the last look that reached the database
        self._unchanged = 0.0  # for how long the row has been as it is
        self._was_reachable = False  # the owner, in this epoch
        self._refusals = 0

    def missed(self) -> None:
        """The database did not answer, or did not take this node's own write."""
        self._looked = None

    def look(
        self,
        row: ShardRow,
        next_start: int | None,
        now: float,
        *,
        is_refused: bool | None = None,
    ) -> StandbyDecision:
        """``is_refused``: whether the owner's address refuses connections; None: not known.

        ``now`` is of a monotonic clock that counts suspended time.
        """
        if self.seen.epoch >= 0 and has_lost_commits(row, self.seen, next_start):
            return StandbyDecision.WENT_BACK
        self._note_time(row, now)
        self._note_owner(row, is_refused)
        self.seen = row
        is_gone = self._was_reachable and self._refusals >= REFUSALS
        if row.owner is None or is_gone or self._unchanged >= self._lease:
            return StandbyDecision.TAKE
        return StandbyDecision.WAIT

    def _note_time(self, row: ShardRow, now: float) -> None:
        if row != self.seen:
            self._unchanged = 0.0
        elif self._looked is not None:
            self._unchanged += min(now - self._looked, self._max_step)
        self._looked = now

    def _note_owner(self, row: ShardRow, is_refused: bool | None) -> None:
        """Refusals count for an owner that was reachable in this epoch: two standbys that start
        together would take the shard from each other before either of them listens."""
        if row.epoch != self.seen.epoch:
            self._was_reachable, self._refusals = False, 0
        if is_refused:
            self._refusals += 1
        elif is_refused is not None:
            self._was_reachable, self._refusals = True, 0


class OwnerLease:
    """How long an owner may deliver without a successful commit."""

    def __init__(self, lease: float, now: float) -> None:
        self._lease = lease
        self._sent = now

    def committed(self, sent: float) -> None:
        """A commit that was sent then has succeeded. Its answer may be much later."""
        self._sent = max(self._sent, sent)

    def is_over(self, now: float) -> bool:
        return now - self._sent >= self._lease
