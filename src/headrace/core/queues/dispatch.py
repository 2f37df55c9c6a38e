"""Dispatch: which consumer of a queue gets the next message.

Consumers of equal priority are served round-robin, message by message (A B C A B C), as far as
their prefetch and sockets allow; a lower priority is served only while no consumer above has room.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator

from headrace.core.queues.consumer import Consumer
from headrace.model.backlog import Backlog, PriorityBacklog


class Dispatcher:
    """The consumers of one queue, and the rotation among them."""

    __slots__ = ("_arrival", "_connections", "_levels", "_tiers", "single_active")

    def __init__(self) -> None:
        self._arrival: dict[Consumer, None] = {}
        self._tiers: dict[int, OrderedDict[Consumer, None]] = {}  # by priority: the next one first
        self._levels: list[int] = []  # priorities, negated: the highest first
        self._connections: Counter[int] = Counter()
        self.single_active = False

    def __len__(self) -> int:
        return len(self._arrival)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._arrival)

    @property
    def active(self) -> Consumer | None:
        """The consumer that is served when there is only a single active one."""
        return next(iter(self._arrival), None)

    @property
    def _shared(self) -> bool:
        """Two consumers are on one connection: its order must be the queue's."""
        return len(self._connections) < len(self._arrival)

    def can_add(self, consumer: Consumer) -> bool:
        """Whether no exclusive consumer would share the queue."""
        if consumer.exclusive and (self._arrival or self.single_active):
            return False
        first = self.active  # an exclusive consumer is alone
        return first is None or not first.exclusive

    def add(self, consumer: Consumer) -> None:
        """Add a consumer behind the others of its priority."""
        self._arrival[consumer] = None
        if consumer.priority not in self._tiers:
            self._tiers[consumer.priority] = OrderedDict()
            insort(self._levels, -consumer.priority)
        self._tiers[consumer.priority][consumer] = None
        self._connections[id(consumer.channel.connection)] += 1

    def remove(self, consumer: Consumer) -> None:
        del self._arrival[consumer]
        tier = self._tiers[consumer.priority]
        del tier[consumer]
        if not tier:
            del self._tiers[consumer.priority]
            self._levels.remove(-consumer.priority)
        connection = id(consumer.channel.connection)
        self._connections[connection] -= 1
        if not self._connections[connection]:
            del self._connections[connection]

    def dispatch(
        self,
        backlog: Backlog | PriorityBacklog,
        drop_expired: Callable[[], bool] | None = None,
    ) -> None:
        """Deliver messages until there are none, or no consumer has room.

        ``drop_expired`` is called for each new head: a message may expire behind one that does
        not. It returns False when it could not drop all of them yet.
        """
        arrival = self._arrival
        if not arrival:
            return
        if len(arrival) == 1 or self.single_active:
            consumer = next(iter(arrival))
            channel = consumer.channel
            while backlog.count:
                room = channel.room(consumer)
                if room <= 0:
                    return
                channel.deliver(consumer, backlog.take(room))
                if drop_expired is not None and not drop_expired():
                    return
            return
        while backlog.count:
            # On a shared connection one at a time: its channels may also share their credit.
            tier, ready = self._ready_consumers(1 if self._shared else backlog.count)
            if not ready:
                return
            self._dispatch_round(backlog, tier, ready)
            if drop_expired is not None and not drop_expired():
                return

    def _ready_consumers(self, wanted: int) -> tuple[OrderedDict[Consumer, None], list[Consumer]]:
        """Consumers with room, the next one first; no more than there are messages."""
        ready: list[Consumer] = []
        tier: OrderedDict[Consumer, None] = OrderedDict()
        for level in self._levels:
            tier = self._tiers[-level]
            for consumer in tier:
                if consumer.channel.room(consumer) > 0:
                    ready.append(consumer)
                    if len(ready) == wanted:
                        break
            if ready:
                break
        return tier, ready

    def _dispatch_round(
        self,
        backlog: Backlog | PriorityBacklog,
        tier: OrderedDict[Consumer, None],
        ready: list[Consumer],
    ) -> None:
        k = len(ready)
        rounds = 1
        # Room comes back only after this call: a single consumer need not wait for the full ones.
        if backlog.count > k and not self._shared:
            rounds = min([one.channel.room(one) for one in ready])
        run = backlog.take(rounds * k)
        n = len(run)
        if n == 1 or k == 1:
            ready[0].channel.deliver(ready[0], run)
        else:
            for consumer, part in zip(ready, run.split_round_robin(k), strict=False):
                consumer.channel.deliver(consumer, part)
        served = n if n <= k else (n % k if k > 1 else 1)
        for consumer in ready[:served]:
            if consumer in tier:
                tier.move_to_end(consumer)
