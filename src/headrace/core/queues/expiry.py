"""Expiry of a queue's messages (TTL), and of a queue that is not used (x-expires)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.clock import Timer, Timers
from headrace.core.counters import QueueCounters
from headrace.core.loop_turn import LoopTurn
from headrace.core.message_events import EXPIRED
from headrace.core.queues.dead_message_removal import DeadMessageRemoval
from headrace.model.backlog import Backlog, PriorityBacklog
from headrace.store.api.message_log import StoredRun

EXPIRE_AT_ONCE = 1000  # messages that are dropped before others are served


@dataclass(slots=True, eq=False, repr=False)
class MessageExpiry:
    """When messages expire, the timer for the next one, and their removal from the head."""

    timers: Timers
    turn: LoopTurn
    backlog: Backlog | PriorityBacklog
    dead_removal: DeadMessageRemoval
    counters: QueueCounters
    dispatch: Callable[[], None]
    ttl_ms: int | None = None  # of the queue
    is_active: bool = False  # some message may expire
    marked_at: int = 0  # when the queue was marked in this loop turn
    _overdue: int = 0  # more has expired, up to this time, than one share; 0: no more has
    _is_scheduled: bool = False
    _timer: Timer | None = None
    _closed: bool = False

    def expires_at(self, ttl_ms: int | None, *, is_marked: bool) -> int | None:
        """When a message that arrives now expires; None: never."""
        ttl_ms = self.shorter_ttl(ttl_ms)
        if ttl_ms is None:
            return None
        now = self.timers.clock.now_ms()
        if not is_marked:
            self.marked_at = now
        self.is_active = True
        return now + ttl_ms

    def shorter_ttl(self, ttl_ms: int | None) -> int | None:
        """The TTL of a message, or that of the queue if it is shorter."""
        limit = self.ttl_ms
        return limit if ttl_ms is None or (limit is not None and limit < ttl_ms) else ttl_ms

    def stored_expires_at(self, stored: StoredRun) -> int | None:
        """The same for messages paged in: they aged while they were on disk."""
        known = [ms for ms in (self.ttl_ms, stored.ttl_ms) if ms is not None]
        if not known:
            return None
        clock = self.timers.clock
        self.is_active = True
        return clock.now_ms() + min(known) - max(clock.expiry_ms() - stored.time, 0)

    def drop_late(self) -> bool:
        """Drop what expired before this loop turn; False: not all of it yet.

        What arrived in this turn gets its chance first: a TTL of 0 means "now or never".
        """
        return self._drop_until(max(self.marked_at - 1, self._overdue))

    def drop_due(self) -> None:
        """Drop what has expired, and wait for the next message that does."""
        if not self._closed and self._drop_until(self.timers.clock.now_ms()):
            self.arm()

    def _drop_until(self, now: int) -> bool:
        """Drop what has expired at the head; False: there is more, and it goes in later turns."""
        if not self.dead_removal.is_running:
            expired = self.backlog.take_expired(now, EXPIRE_AT_ONCE)
            if not expired:
                self._overdue = 0
                return True
            self.counters.expired += sum(map(len, expired))
            self.dead_removal.add(expired, EXPIRED)
        due = self.backlog.next_expiry()
        if due is None or due > now:
            self._overdue = 0
            return True
        self._overdue = now
        self.dispatch_later()
        return False

    def dispatch_later(self) -> None:
        """There is more to drop: go on in another loop turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self.turn.later(self)

    def work(self) -> None:
        """Continue with what has expired, in a later loop turn."""
        self._is_scheduled = False
        if not self._closed:
            self.dispatch()

    def arm(self) -> None:
        """Wait for the expiry of the head."""
        due = self.backlog.next_expiry()
        if due is None:
            if not self.backlog.count and self.ttl_ms is None:
                self.is_active = False
            return
        timer = self._timer
        if timer is not None and timer.callback is not None:
            if timer.due <= due:
                return
            timer.cancel()
        self._timer = self.timers.at(due, self.drop_due)

    def close(self) -> None:
        self._closed = True
        self.backlog, self.dispatch = Backlog(), lambda: None  # see AckTimeouts.close
        if self._timer is not None:
            self._timer.cancel()


class IdleExpiry:
    """x-expires: deletes a queue that was not used for some time."""

    __slots__ = ("_delete", "_expires_ms", "_is_used", "_timer", "_timers", "last_used")

    def __init__(
        self, timers: Timers, is_used: Callable[[], object], delete: Callable[[], object]
    ) -> None:
        self._timers = timers
        self._is_used = is_used
        self._delete = delete
        self._expires_ms: int | None = None
        self._timer: Timer | None = None
        self.last_used = 0

    def configure(self, expires_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()  # the time may be shorter now
        self._expires_ms = expires_ms
        self.touch()

    def touch(self) -> None:
        """The queue is used now."""
        self.last_used = self._timers.clock.now_ms()
        timer = self._timer
        if self._expires_ms is not None and (timer is None or timer.callback is None):
            self._timer = self._timers.after(self._expires_ms, self._due)

    def _due(self) -> None:
        if self._expires_ms is None:
            return
        due, now = self.last_used + self._expires_ms, self._timers.clock.now_ms()
        if self._is_used() or due > now:
            self._timer = self._timers.at(max(due, now + 1), self._due)
        else:
            self._delete()

    def close(self) -> None:
        self._is_used = self._delete = lambda: None  # see AckTimeouts.close
        if self._timer is not None:
            self._timer.cancel()
