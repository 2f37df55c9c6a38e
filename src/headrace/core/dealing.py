"""Who gets the next message: the consumers of a queue, in turn.

Consumers of equal priority take turns message by message (A B C A B C), as far as their credit and
sockets allow; a lower priority is served only when nobody above has room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from headrace.core.consumer import Consumer
from headrace.model.backlog import Backlog, PriorityBacklog


class Dealer:
    """The consumers of one queue, and the rotation among them."""

    __slots__ = ("_arrival", "_shared", "_tiers", "single_active")

    def __init__(self) -> None:
        self._arrival: list[Consumer] = []
        self._tiers: list[deque[Consumer]] = []  # by priority, highest first
        self._shared = False  # two consumers on one connection: its order must be the queue's
        self.single_active = False

    def __len__(self) -> int:
        return len(self._arrival)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._arrival)

    @property
    def active(self) -> Consumer | None:
        """The one that is served when there is only a single active consumer."""
        return self._arrival[0] if self._arrival else None

    def add(self, consumer: Consumer) -> None:
        self._arrival.append(consumer)
        self._arrange()

    def remove(self, consumer: Consumer) -> None:
        self._arrival.remove(consumer)
        self._arrange()

    def _arrange(self) -> None:
        # Keep the rotation of those who stay: a newcomer must not send everybody to the start.
        order = [consumer for tier in self._tiers for consumer in tier]
        present, known = set(self._arrival), set(order)
        members = [one for one in order if one in present]
        members += [one for one in self._arrival if one not in known]
        by_priority: dict[int, deque[Consumer]] = {}
        for consumer in members:
            by_priority.setdefault(consumer.priority, deque()).append(consumer)
        self._tiers = [by_priority[level] for level in sorted(by_priority, reverse=True)]
        connections = {id(consumer.channel.connection) for consumer in members}
        self._shared = len(connections) < len(members)

    def deal(
        self,
        backlog: Backlog | PriorityBacklog,
        drop_expired: Callable[[], bool] | None = None,
    ) -> None:
        """Hand out messages until there are none, or nobody has room.

        ``drop_expired`` is asked for each new head: a message may expire behind one that does not.
        It is False when it could not drop all of them yet.
        """
        arrival = self._arrival
        if len(arrival) == 1 or self.single_active:
            consumer = arrival[0]
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
            tier, hands = self._hands(1 if self._shared else backlog.count)
            if not hands:
                return
            self._deal_round(backlog, tier, hands)
            if drop_expired is not None and not drop_expired():
                return

    def _hands(self, wanted: int) -> tuple[deque[Consumer], list[Consumer]]:
        """Consumers with room, next in turn first; no more than there are messages."""
        hands: list[Consumer] = []
        tier: deque[Consumer] = deque()
        for tier in self._tiers:
            for consumer in tier:
                if consumer.channel.room(consumer) > 0:
                    hands.append(consumer)
                    if len(hands) == wanted:
                        break
            if hands:
                break
        return tier, hands

    def _deal_round(
        self,
        backlog: Backlog | PriorityBacklog,
        tier: deque[Consumer],
        hands: list[Consumer],
    ) -> None:
        k = len(hands)
        rounds = 1
        # Room comes back only after this call: a lone hand need not wait for the full ones.
        if backlog.count > k and not self._shared:
            rounds = min([one.channel.room(one) for one in hands])
        run = backlog.take(rounds * k)
        n = len(run)
        if n == 1 or k == 1:
            hands[0].channel.deliver(hands[0], run)
        else:
            for consumer, part in zip(hands, run.deal(k), strict=False):
                consumer.channel.deliver(consumer, part)
        served = n if n <= k else (n % k if k > 1 else 1)
        if not served:
            return
        if tier[served - 1] is hands[served - 1]:
            tier.rotate(-served)
        else:
            for consumer in hands[:served]:
                tier.remove(consumer)
                tier.append(consumer)
