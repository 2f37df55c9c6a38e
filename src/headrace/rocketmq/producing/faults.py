"""Which brokers a producer should leave alone for a while, without any clock of its own."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from headrace.wire.remoting.message_queue import MessageQueue

# A send that took so many milliseconds keeps the broker out of use for so many seconds.
_REST = ((15_000, 30.0), (5_000, 10.0), (3_000, 6.0), (1_800, 5.0), (550, 2.0))
_AFTER_ERROR = 10.0


def rest_after(millis: float) -> float:
    """Seconds to avoid a broker after a send of that duration."""
    return next((seconds for limit, seconds in _REST if millis >= limit), 0.0)


class BrokerFaults:
    """Brokers that were slow or failed, and until when."""

    def __init__(self, *, by_latency: bool = False) -> None:
        self._by_latency = by_latency
        self._until: dict[str, float] = {}
        self._lock = Lock()

    def succeeded(self, broker: str, millis: float, now: float) -> None:
        if self._by_latency:
            self._rest(broker, rest_after(millis), now)

    def failed(self, broker: str, now: float) -> None:
        if self._by_latency:
            self._rest(broker, _AFTER_ERROR, now)

    def _rest(self, broker: str, seconds: float, now: float) -> None:
        with self._lock:
            if seconds:
                self._until[broker] = now + seconds
            else:
                self._until.pop(broker, None)

    def is_available(self, broker: str, now: float) -> bool:
        return self._until.get(broker, 0.0) <= now

    def choose(
        self, queues: Sequence[MessageQueue], place: int, tried: set[str], now: float
    ) -> MessageQueue:
        """Round robin from `place`: a well and untried broker, else an untried one, else any."""
        count = len(queues)
        first = queues[place % count]
        if first.broker_name not in tried and self.is_available(first.broker_name, now):
            return first
        turn = [queues[(place + step) % count] for step in range(count)]
        for queue in turn:
            if queue.broker_name not in tried and self.is_available(queue.broker_name, now):
                return queue
        for queue in turn:
            if queue.broker_name not in tried:
                return queue
        return turn[0]
