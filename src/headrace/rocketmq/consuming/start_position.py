"""Where a group begins in a queue for which it has no stored offset."""

from __future__ import annotations

import time
from typing import Protocol

from headrace.rocketmq.enums import ConsumeFromWhere
from headrace.wire.remoting.message_queue import MessageQueue
from headrace.wire.remoting.names import is_retry_topic

_HALF_AN_HOUR = 30 * 60 * 1000


class QueueOffsets(Protocol):
    """Questions to the broker of a queue. They block; never ask from an event loop."""

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""

    def min_offset(self, queue: MessageQueue) -> int:
        """The oldest offset that can still be read."""

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """The first message stored at that time (milliseconds) or later."""


class ConsumeFromWhereManager:
    """Turns ConsumeFromWhere into an offset."""

    def __init__(self, bounds: QueueOffsets) -> None:
        self._bounds = bounds

    def get_consume_offset(
        self, queue: MessageQueue, strategy: ConsumeFromWhere | str, timestamp: int = 0
    ) -> int:
        """`timestamp`: milliseconds since 1970, 0 = half an hour ago."""
        strategy = ConsumeFromWhere(strategy)
        if is_retry_topic(queue.topic):
            return self._bounds.min_offset(queue)  # failed by this group: none may be skipped
        if strategy is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return self._bounds.min_offset(queue)
        if strategy is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
            return self._bounds.max_offset(queue)
        stamp = timestamp or time.time_ns() // 1_000_000 - _HALF_AN_HOUR
        return self._bounds.offset_by_time(queue, stamp)
