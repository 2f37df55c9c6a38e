"""AMQP transactions: publishes and settlements held back until commit.

A commit is prepared over several turns of the loop, and then applied in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.loop_turn import Steps
from headrace.core.queues.consumer import Consumer
from headrace.model.intervals import Intervals
from headrace.model.unacked import SettledRange
from headrace.server.amqp.publisher import PREPARE_AT_ONCE, PreparedPublishes

if TYPE_CHECKING:
    from headrace.server.amqp.channel import Channel
    from headrace.server.amqp.publisher import Publish, Publisher

Tags = list[tuple[int, int]]  # ranges, stops exclusive


class TakenAcks:
    """Messages that are off their channel already and are acknowledged in one step."""

    __slots__ = ("counts", "parts", "ranges")

    def __init__(self) -> None:
        self.parts: list[SettledRange[Consumer]] = []
        self.counts: dict[Consumer, tuple[int, int]] = {}  # messages, bytes
        self.ranges: list[tuple[int, int, int]] = []  # in the log: queue, first, stop

    def add(self, part: SettledRange[Consumer]) -> None:
        owner, run = part.owner, part.run
        self.parts.append(part)
        count, size = self.counts.get(owner, (0, 0))
        self.counts[owner] = (count + part.count, size + part.size)
        number = owner.queue.number
        if run.persistent and number is not None:
            offsets = run.offsets[part.start : part.stop]
            if offsets[-1] - offsets[0] + 1 == len(offsets):
                self.ranges.append((number, offsets[0], offsets[-1] + 1))
            else:
                self.ranges += [(number, offset, offset + 1) for offset in offsets]


class Transaction:
    """What one channel holds back. Settlements are checked when made, carried out at commit."""

    __slots__ = ("_is_applied", "_publishes", "_settlements", "_taken", "acks", "claimed",
                 "publishes")  # fmt: skip

    def __init__(self) -> None:
        self._taken = TakenAcks()
        self._is_applied = False  # a commit is visible to others, and not at its end yet
        self.rollback()

    def publish(self, one: Publish) -> None:
        self.publishes += 1
        self._publishes.append(one)

    def claim(self, first: int, last: int) -> Tags:
        """Keep what is free of the tags first .. last for one settlement; stops are exclusive."""
        free = list(self.claimed.missing(first, last + 1))
        self.claimed.add(first, last + 1)
        return free

    def settle(self, tags: Tags, requeue: bool | None) -> None:
        """``requeue`` None: an ack."""
        self.acks += 1
        ranges = self._settlements.setdefault(requeue, [])
        for start, stop in tags:
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, stop))

    def commit(self, channel: Channel, publisher: Publisher) -> Steps:
        """Publishes and acks, then what is rejected or requeued.

        A channel that is closed during the preparation rolls back.
        """
        vhost = channel.owner.open_vhost
        publishes = self._publishes
        yield from self._take_acks(channel)
        if channel.closing:
            return
        prepared = yield from vhost.routes.prepared(
            lambda: PreparedPublishes(vhost.new_publication()),
            lambda into: publisher.prepare(channel, publishes, into),
        )
        if channel.closing:
            prepared.discard()
            return
        taken, self._taken = self._taken, TakenAcks()
        self._is_applied = True
        returns = self._returns(channel)
        with vhost.storage.atomic():
            publisher.publish_prepared(channel, prepared)
            channel.acknowledge_taken(taken)
            next(returns, None)
        yield from returns
        self._is_applied = False
        self.rollback()
        yield from publisher.return_prepared(channel, prepared)

    def _take_acks(self, channel: Channel) -> Steps:
        """Take what is acknowledged off the channel, which gets it back if it is closed."""
        for number, (start, stop) in enumerate(self._settlements.get(None, ())):
            if not number % PREPARE_AT_ONCE:
                yield
                if channel.closing:
                    return
            for part in channel.unacked.take_between(start, stop):
                channel.unacked.count += part.count  # until the commit is visible
                self._taken.add(part)

    def _returns(self, channel: Channel) -> Steps:
        """Reject and requeue: few messages with everything else, many in later steps.

        After a crash they are in their queues again, as all that was not acknowledged is.
        """
        for requeue, ranges in self._settlements.items():
            if requeue is None:
                continue
            for start in range(0, len(ranges), PREPARE_AT_ONCE):
                tags = ranges[start : start + PREPARE_AT_ONCE]
                channel.reject_these(tags, requeue=requeue)
                yield

    def give_up_acks(self) -> list[SettledRange[Consumer]]:
        """What a commit has taken off the channel, if it does not come to its end."""
        parts, self._taken = self._taken.parts, TakenAcks()
        return parts

    def rollback(self) -> None:
        if self._is_applied:
            return
        self._publishes: list[Publish] = []
        self._settlements: dict[bool | None, Tags] = {}
        self.claimed = Intervals()  # delivery tags that are settled as far as the client may know
        self.publishes = self.acks = 0
