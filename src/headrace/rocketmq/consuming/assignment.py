"""A queue that this consumer owns at the moment."""

from __future__ import annotations

import asyncio

from headrace.rocketmq.consuming.process_queue import ProcessQueue
from headrace.rocketmq.offsets.offset_store import OffsetStore
from headrace.wire.remoting.message_queue import MessageQueue


class Assignment:
    """The queue, its messages, and how far it is pulled."""

    def __init__(self, queue: MessageQueue, offset: int, store: OffsetStore) -> None:
        self.queue = queue
        self.cached = ProcessQueue()
        self.next_offset = offset
        self.end_offset = -1
        """What the next message of the queue will get, as of the last pull."""
        self.broker_id = 0
        self.is_busy = False
        """Orderly: a listener is at work."""
        self.is_leaving = False
        self.arrived = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self._store = store

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

    def note_offset(self) -> None:
        """Tell the store how far the queue is finished. Only in the loop's thread.

        Listeners only take messages out of the cache, so nothing unfinished is passed; once the
        queue is dropped its offset belongs to the next owner.
        """
        if self.cached.dropped:
            return
        offset = self.finished_offset
        if offset >= 0:
            self._store.update_offset(self.queue, offset, increase_only=True)
