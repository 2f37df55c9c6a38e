"""Counters since the start: counted per run, never per message. They only rise."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class QueueCounters:
    """What happened to a queue's messages since it was made."""

    published: int = 0
    delivered: int = 0  # to consumers and by gets, with and without acks
    delivered_no_ack: int = 0  # of these, those that need no ack
    got: int = 0  # of the delivered ones, those that were asked for
    got_no_ack: int = 0
    got_nothing: int = 0  # gets that found the queue empty
    redelivered: int = 0
    read_back: int = 0  # from the disk, after the memory had no room for them
    acked: int = 0  # also those that need no ack
    returned: int = 0
    expired: int = 0
    dropped: int = 0
    dead_lettered: int = 0

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


@dataclass(slots=True, eq=False)
class VhostCounters:
    """What happened in a vhost, as far as no queue or exchange that is still there knows it."""

    gone: QueueCounters = field(default_factory=QueueCounters)  # of deleted queues, added up
    published: int = 0  # to exchanges that are deleted
    confirmed: int = 0
    returned: int = 0  # unroutable and mandatory
    dropped: int = 0  # unroutable and not mandatory
    stored: int = 0  # written to the log
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0


@dataclass(slots=True, eq=False)
class Churn:
    """How many came and went, of what a broker has."""

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
