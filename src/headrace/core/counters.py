"""What happened to a queue's messages since it was made. Counted per run, never per message."""

from __future__ import annotations


class QueueCounters:
    """Only ever rise; rates are made from them by whoever looks."""

    __slots__ = ("acked", "dead_lettered", "delivered", "dropped", "expired", "got", "published",
                 "redelivered", "returned")  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.got = 0
        self.redelivered = 0
        self.acked = 0
        self.returned = 0
        self.expired = 0
        self.dropped = 0
        self.dead_lettered = 0
