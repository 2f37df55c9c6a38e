"""What to keep, take and give up after the queues of a topic were shared, without any I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from headrace.rocketmq.consuming.allocation import AllocateStrategy
from headrace.wire.remoting.message_queue import MessageQueue


@dataclass(frozen=True, slots=True)
class RebalanceDiff:
    """The difference between what a consumer has and what it should have."""

    gained: tuple[MessageQueue, ...]
    lost: tuple[MessageQueue, ...]

    def __bool__(self) -> bool:
        return bool(self.gained or self.lost)


def change(owned: Collection[MessageQueue], wanted: Iterable[MessageQueue]) -> RebalanceDiff:
    should = set(wanted)
    return RebalanceDiff(tuple(sorted(should - set(owned))), tuple(sorted(set(owned) - should)))


def share_of(
    strategy: AllocateStrategy,
    group: str,
    client_id: str,
    queues: Sequence[MessageQueue],
    members: Sequence[str] | None,
) -> list[MessageQueue] | None:
    """The own queues of a topic; None when it cannot be said, and everything stays as it is.

    ``members`` is None when no broker could be asked.
    """
    if members is None or not queues:
        return None
    return strategy.allocate(group, client_id, sorted(queues), sorted(members))


def by_topic(queues: Iterable[MessageQueue], topic: str) -> list[MessageQueue]:
    return [queue for queue in queues if queue.topic == topic]


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    """Locks are asked for from each broker in one request."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
