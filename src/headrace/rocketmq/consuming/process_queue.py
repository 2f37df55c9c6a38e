"""The messages of one queue between pulling and consuming. Safe for any number of threads.

The offset to commit is the smallest that is not finished: a slow message holds it back, so a
crash brings messages again and never loses one.
"""

from __future__ import annotations

import asyncio
import time
from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

from headrace.rocketmq.message import MessageExt
from headrace.rocketmq.offsets.offset_store import OffsetStore
from headrace.wire.remoting.message_queue import MessageQueue

LOCK_LIFE = 30.0  # seconds a lock is trusted without renewal; brokers keep it for 60
_LATE = 16  # messages reported at a time
STUCK_AFTER = 120.0  # seconds without a pull


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Above one of these no more messages are pulled into a queue."""

    count: int = 1000
    size: int = 100 * 1024 * 1024
    span: int = 2000


class ProcessQueue:
    """Messages by offset, their counts, and who owns the queue."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._messages: dict[int, MessageExt] = {}
        self._order: deque[int] = deque()  # ascending; finished ones linger
        self._taken: dict[int, MessageExt] = {}
        self._started: dict[int, float] = {}
        self._size = 0
        self._next = -1  # one above the highest offset ever put
        self.dropped = False
        """The queue belongs to another member now: results are ignored."""
        self.locked = False
        self.locked_at = 0.0
        self.pulled_at = time.monotonic()
        self.consumed_at = time.monotonic()

    # -- filling -----------------------------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> list[MessageExt]:
        """Add messages; those which are here already are left out of the answer."""
        fresh: list[MessageExt] = []
        with self._lock:
            for message in messages:
                offset = message.queue_offset
                if offset in self._messages or offset in self._taken:
                    continue
                self._messages[offset] = message
                self._size += len(message.body)
                if offset >= self._next:
                    self._order.append(offset)
                    self._next = offset + 1
                else:
                    self._insert(offset)
                fresh.append(message)
        return fresh

    def _insert(self, offset: int) -> None:
        if offset not in self._order:
            insort(self._order, offset)

    # -- concurrent consumption --------------------------------------------------------------

    def begin(self, messages: Sequence[MessageExt], now: float) -> None:
        """The listener is about to get them."""
        with self._lock:
            for message in messages:
                self._started[message.queue_offset] = now

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Messages are finished; the offset to commit, -1 if there is nothing to say."""
        with self._lock:
            self.consumed_at = time.monotonic()
            for message in messages:
                self._forget(message.queue_offset)
            return self._commit_offset()

    def holds(self, message: MessageExt) -> bool:
        """False when it is finished already, for example because it took too long."""
        with self._lock:
            return message.queue_offset in self._messages

    def _forget(self, offset: int) -> None:
        self._started.pop(offset, None)
        message = self._messages.pop(offset, None)
        if message is not None:
            self._size -= len(message.body)

    def expired(self, now: float, limit: float) -> list[MessageExt]:
        """Messages that listeners have had for longer than `limit` seconds."""
        with self._lock:
            late = [o for o, began in self._started.items() if now - began > limit]
            return [self._messages[o] for o in late[:_LATE] if o in self._messages]

    # -- orderly consumption -----------------------------------------------------------------

    def take(self, most: int) -> list[MessageExt]:
        """The next messages in order; they count as being consumed until settled."""
        with self._lock:
            taken: list[MessageExt] = []
            while self._order and len(taken) < most:
                offset = self._order.popleft()
                message = self._messages.pop(offset, None)
                if message is not None:
                    self._taken[offset] = message
                    taken.append(message)
            self.consumed_at = time.monotonic()
            return taken

    def commit(self) -> int:
        """All taken messages are finished; the offset to commit, -1 if none was taken."""
        with self._lock:
            if not self._taken:
                return -1
            offset = max(self._taken) + 1
            self._size -= sum(len(one.body) for one in self._taken.values())
            self._taken.clear()
            return offset

    def give_back(self, messages: Iterable[MessageExt] | None = None) -> None:
        """Taken messages (all, or these) are to be consumed again, first of all."""
        with self._lock:
            back = list(self._taken.values()) if messages is None else list(messages)
            for message in sorted(back, key=lambda one: one.queue_offset, reverse=True):
                offset = message.queue_offset
                if self._taken.pop(offset, None) is not None:
                    self._messages[offset] = message
                    if self._order and self._order[0] < offset:
                        self._insert(offset)
                    else:
                        self._order.appendleft(offset)

    # -- questions ---------------------------------------------------------------------------

    def _commit_offset(self) -> int:
        order = self._order
        while order and order[0] not in self._messages:
            order.popleft()
        return order[0] if order else self._next

    def commit_offset(self) -> int:
        """Everything below it is finished; -1 when nothing was ever put."""
        with self._lock:
            if self._taken:
                return min(self._taken)
            return self._commit_offset()

    @property
    def count(self) -> int:
        return len(self._messages) + len(self._taken)

    @property
    def size(self) -> int:
        """Bytes of bodies."""
        return self._size

    @property
    def span(self) -> int:
        """From the first unfinished offset to the last one."""
        with self._lock:
            if not self._messages:
                return 0
            return self._next - 1 - self._commit_offset()

    @property
    def is_empty(self) -> bool:
        return not self._messages and not self._taken

    def bounds(self) -> tuple[int, int]:
        """Lowest and highest offset that is cached; (-1, -1) without any."""
        with self._lock:
            offsets = [*self._messages, *self._taken]
            return (min(offsets), max(offsets)) if offsets else (-1, -1)

    def flow_control(self, limits: FlowLimits, *, orderly: bool = False) -> str | None:
        """Why nothing should be pulled now; None when there is room."""
        if self.count > limits.count:
            return f"{self.count} messages are cached, more than {limits.count}"
        if self.size > limits.size:
            return f"{self.size} bytes are cached, more than {limits.size}"
        if not orderly and (span := self.span) > limits.span:
            return f"cached offsets span {span}, more than {limits.span}"
        return None

    def holds_lock(self, now: float) -> bool:
        """Whether the broker's lock can still be trusted."""
        return self.locked and now - self.locked_at <= LOCK_LIFE

    def lock_renewed(self, now: float) -> None:
        self.locked, self.locked_at = True, now

    def is_stuck(self, now: float) -> bool:
        return now - self.pulled_at > STUCK_AFTER


class Assignment:
    """The queue, its messages, and how far it is pulled."""

    def __init__(self, queue: MessageQueue, offset: int, store: OffsetStore) -> None:
        self.queue = queue
        self.cached = ProcessQueue()
        self.next_offset = offset
        self.end_offset = -1
        """What the next message of the queue will get, as of the last pull."""
        self.broker_id = 0
        self.is_new = False
        """The group had no stored offset."""
        self.is_busy = False
        """Orderly: a listener is running."""
        self.is_leaving = False
        self.arrived = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self._store = store
        self._reported = -1

    @property
    def dropped(self) -> bool:
        return self.cached.dropped

    def drop(self) -> None:
        """From now on no result counts."""
        self.cached.dropped = True
        self.arrived.set()

    @property
    def finished_offset(self) -> int:
        """Everything below it is finished."""
        return self.next_offset if self.cached.is_empty else self.cached.commit_offset()

    @property
    def lag(self) -> int:
        """Messages that are not finished, as of the last pull; filtered ones count."""
        return max(0, self.end_offset - self.finished_offset)

    def update_offset(self) -> None:
        """Report the finished offset to the store. Only in the loop's thread.

        Listeners only take messages out of the cache, so nothing unfinished is passed; once the
        queue is dropped its offset belongs to the next owner.
        """
        if self.cached.dropped:
            return
        offset = self.finished_offset
        if offset >= max(self._reported, 0):
            self._reported = offset
            self._store.update_offset(self.queue, offset)
