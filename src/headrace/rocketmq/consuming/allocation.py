"""How the queues of a topic are shared by the members of a group.

Every member computes the same answer from the same two lists, so the rules must agree with
those of Java to the letter: groups may have members in several languages.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from headrace.rocketmq.enums import AllocateQueueStrategy
from headrace.rocketmq.errors import ConfigurationError
from headrace.wire.remoting.message_queue import MessageQueue

VIRTUAL_NODES = 10
Queues = list[MessageQueue]


@runtime_checkable
class AllocateStrategy(Protocol):
    """What every strategy offers; a class of your own works as well."""

    name: str

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        """The queues of `current_cid`."""


def _java_order(text: str) -> bytes:
    """Java compares texts by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


class _EvenStrategy(ABC):
    """Shares the queues among all members, both in the order they agree on."""

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        cids = sorted(set(cid_all), key=_java_order)
        if current_cid not in cids:
            return []
        return self._share(sorted(set(mq_all)), cids, cids.index(current_cid))

    @abstractmethod
    def _share(self, queues: Queues, cids: list[str], index: int) -> Queues:
        """What the member at ``index`` gets."""


class AverageAllocateStrategy(_EvenStrategy):
    """Contiguous blocks whose sizes differ by at most one."""

    name = "AVG"

    def _share(self, queues: Queues, cids: list[str], index: int) -> Queues:
        size, extra = divmod(len(queues), len(cids))
        start = index * size + min(index, extra)
        return queues[start : start + size + (index < extra)]


class AverageByCircleAllocateStrategy(_EvenStrategy):
    """Queues are dealt out one by one."""

    name = "AVG_BY_CIRCLE"

    def _share(self, queues: Queues, cids: list[str], index: int) -> Queues:
        return queues[index :: len(cids)]


def _ring_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class ConsistentHashAllocateStrategy(_EvenStrategy):
    """Members on a ring: when one leaves, only its queues move. Shares are uneven."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 1:
            raise ConfigurationError(f"virtual_nodes is {virtual_nodes}; at least 1")
        self.virtual_nodes = virtual_nodes

    def _share(self, queues: Queues, cids: list[str], index: int) -> Queues:
        ring = {_ring_hash(f"{cid}-{k}"): cid for cid in cids for k in range(self.virtual_nodes)}
        points = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            place = bisect_left(points, _ring_hash(str(queue)))
            return ring[points[place % len(points)]]

        return [queue for queue in queues if owner(queue) == cids[index]]


HashAllocateStrategy = ConsistentHashAllocateStrategy
"""The original name. Its own rule is unknown to Java members, so the name stands for this one."""


class ConfigurationAllocateStrategy:
    """Queues fixed by the program, independent of other members."""

    name = "CONFIG"

    def __init__(self, queues: Collection[MessageQueue]) -> None:
        self.queues = frozenset(queues)

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        return sorted(set(mq_all) & self.queues)


class MachineRoomAllocateStrategy(_EvenStrategy):
    """Only queues of brokers named `room@name` whose room is one of ours, dealt evenly."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        if isinstance(rooms, str) or not rooms:
            raise ConfigurationError("rooms is a collection of machine room names, not empty")
        self.rooms = frozenset(rooms)

    def _share(self, queues: Queues, cids: list[str], index: int) -> Queues:
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        size, extra = divmod(len(near), len(cids))
        share = near[index * size : (index + 1) * size]
        if index < extra:
            share.append(near[index + size * len(cids)])
        return share

    def _is_near(self, broker_name: str) -> bool:
        room, at, name = broker_name.partition("@")
        return bool(at) and "@" not in name and room in self.rooms


_PLAIN: dict[AllocateQueueStrategy, Callable[[], AllocateStrategy]] = {
    AllocateQueueStrategy.AVERAGE: AverageAllocateStrategy,
    AllocateQueueStrategy.AVERAGE_BY_CIRCLE: AverageByCircleAllocateStrategy,
    AllocateQueueStrategy.HASH: ConsistentHashAllocateStrategy,
    AllocateQueueStrategy.CONSISTENT_HASH: ConsistentHashAllocateStrategy,
}


def strategy_of(
    value: AllocateQueueStrategy | str | AllocateStrategy,
    queues: Collection[MessageQueue] = (),
    rooms: Collection[str] = (),
) -> AllocateStrategy:
    """The strategy object for a name of the enumeration; an object stays as it is."""
    if not isinstance(value, str):
        if isinstance(value, AllocateStrategy):
            return value
        raise ConfigurationError(
            f"allocate_queue_strategy {value!r} has no name and allocate(); "
            "give a member of AllocateQueueStrategy or such an object"
        )
    try:
        member = AllocateQueueStrategy(value)
    except ValueError:
        names = ", ".join(one.value for one in AllocateQueueStrategy)
        raise ConfigurationError(f"allocate_queue_strategy {value!r} is none of {names}") from None
    if member is AllocateQueueStrategy.CONFIGURATION:
        if not queues:
            raise ConfigurationError("allocate_queue_strategy CONFIGURATION needs allocate_queues")
        return ConfigurationAllocateStrategy(queues)
    if member is AllocateQueueStrategy.MACHINE_ROOM:
        if not rooms:
            raise ConfigurationError("allocate_queue_strategy MACHINE_ROOM needs machine_rooms")
        return MachineRoomAllocateStrategy(rooms)
    return _PLAIN[member]()
