"""AMQP transactions: publishes and settlements held back until commit.

A commit is prepared over several turns of the loop, and then applied in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.loop_turn import Steps
from headrace.model.intervals import Intervals, join_ranges

if TYPE_CHECKING:
    from headrace.server.amqp.channel import Channel
    from headrace.server.amqp.publisher import Prepared, Publish, Publisher

Tags = list[tuple[int, int]]  # ranges, stops exclusive


class Transaction:
    """What one channel holds back. Settlements are checked when made, carried out at commit."""

    __slots__ = ("_publishes", "_settlements", "acks", "claimed", "publishes")

    def __init__(self) -> None:
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
        """``requeue`` None: an ack. Those of one kind that follow each other become one."""
        self.acks += 1
        if not self._settlements or self._settlements[-1][1] is not requeue:
            self._settlements.append(([], requeue))
        self._settlements[-1][0].extend(tags)

    def commit(self, channel: Channel, publisher: Publisher) -> Steps:
        """Publishes first, then settlements. A channel that is closed meanwhile rolls back."""
        vhost = channel.owner.open_vhost
        publishes = self._publishes

        def prepare(into: list[Prepared]) -> Steps:
            return publisher.prepare(channel, publishes, into)

        prepared = yield from vhost.routes.prepared(prepare)
        settlements = [(join_ranges(tags), requeue) for tags, requeue in self._settlements]
        if channel.closing:
            return
        self.rollback()
        with vhost.storage.atomic():
            publisher.publish_prepared(channel, prepared)
            for tags, requeue in settlements:
                if requeue is None:
                    channel.acknowledge_these(tags)
                else:
                    channel.reject_these(tags, requeue=requeue)

    def rollback(self) -> None:
        self._publishes: list[Publish] = []
        self._settlements: list[tuple[Tags, bool | None]] = []
        self.claimed = Intervals()  # delivery tags that are settled as far as the client may know
        self.publishes = self.acks = 0
