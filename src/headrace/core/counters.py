"""Counters since the start: counted per run, never per message. They only rise."""

from __future__ import annotations


class QueueCounters:
    """What happened to a queue's messages since it was made."""

    __slots__ = ("acked", "dead_lettered", "delivered", "delivered_no_ack", "dropped", "expired",
                 "got", "got_no_ack", "got_nothing", "published", "read_back", "redelivered",
                 "returned")  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0  # to consumers and by gets, with and without acks
        self.delivered_no_ack = 0  # of these, those that need no ack
        self.got = 0  # of the delivered ones, those that were asked for
        self.got_no_ack = 0
        self.got_nothing = 0  # gets that found the queue empty
        self.redelivered = 0
        self.read_back = 0  # from the disk, after the memory had no room for them
        self.acked = 0  # also those that need no ack
        self.returned = 0
        self.expired = 0
        self.dropped = 0
        self.dead_lettered = 0

    def add(self, other: QueueCounters) -> None:
        """Add the counts of another queue. Spelled out: a list of 10,000 queues waits for it."""
        self.published += other.published
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_nothing += other.got_nothing
        self.redelivered += other.redelivered
        self.read_back += other.read_back
        self.acked += other.acked
        self.returned += other.returned
        self.expired += other.expired
        self.dropped += other.dropped
        self.dead_lettered += other.dead_lettered


class VhostCounters:
    """What happened in a vhost, as far as no queue or exchange that is still there knows it."""

    __slots__ = ("confirmed", "dropped", "gone", "published", "queues_created", "queues_declared",
                 "queues_deleted", "returned", "stored")  # fmt: skip

    def __init__(self) -> None:
        self.gone = QueueCounters()  # of deleted queues, added up
        self.published = 0  # to exchanges that are deleted
        self.confirmed = 0
        self.returned = 0  # unroutable and mandatory
        self.dropped = 0  # unroutable and not mandatory
        self.stored = 0  # written to the log
        self.queues_declared = 0
        self.queues_created = 0
        self.queues_deleted = 0


class Churn:
    """How many came and went, of what a broker has."""

    __slots__ = ("channels_opened", "connections_closed", "connections_opened")

    def __init__(self) -> None:
        self.connections_opened = 0
        self.connections_closed = 0
        self.channels_opened = 0
