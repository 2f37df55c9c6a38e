"""One send: the queue of each attempt, brokers to avoid, when to stop. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Lock

from headrace.model.selectors import tag_code
from headrace.rocketmq.enums import SendStatus
from headrace.rocketmq.errors import (
    BrokerError,
    ConnectError,
    RemotingError,
    RocketMQError,
    SendError,
    TopicNotFoundError,
)
from headrace.rocketmq.producing.send_requests import EncodedSend, SendResult, result_of
from headrace.wire.remoting.codes import ResponseCode
from headrace.wire.remoting.command import Command
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
        untried = [queue for queue in turn if queue.broker_name not in tried]
        well = [queue for queue in untried if self.is_available(queue.broker_name, now)]
        return (well or untried or turn)[0]


# Another attempt, with another broker if there is one, may help. NO_PERMISSION only when a broker
# takes no messages at all: a missing permission of the user is missing everywhere.
_NOT_WRITABLE = "sending message is forbidden"
RETRIED = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


def queue_by_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of a key: the same as Java's hash selector chooses."""
    return queues[abs(tag_code(key)) % len(queues)]


def _may_be_stored(error: RocketMQError) -> bool:
    """A refusal is certain, and so is a request that was never sent."""
    if isinstance(error, BrokerError):
        return error.code == ResponseCode.SYSTEM_ERROR
    return not isinstance(error, ConnectError | TopicNotFoundError)


@dataclass(slots=True)
class SendAttempts:
    """The state of one send."""

    message: EncodedSend
    queues: Sequence[MessageQueue]
    faults: BrokerFaults
    _: KW_ONLY
    place: int
    most: int
    deadline: float
    started: float = 0.0
    fixed: MessageQueue | None = None
    """The only queue that will do: there is one attempt then."""
    strict_store: bool = False
    count: int = field(default=0, init=False)
    _tried: set[str] = field(default_factory=set, init=False)
    _attempts: list[str] = field(default_factory=list, init=False)
    _cause: RocketMQError | None = field(default=None, init=False)
    _is_unknown: bool = field(default=False, init=False)
    _began: float = field(default=0.0, init=False)
    _queue: MessageQueue | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.fixed is not None:
            self.most = 1

    def next(self, now: float) -> tuple[MessageQueue, float]:
        """The queue of the next attempt and the seconds it may take; SendError after the last."""
        left = self.deadline - now
        if self.count >= self.most or left <= 0 or not self._may_retry():
            self._give_up(left)
        if self.fixed is not None:
            self._queue = self.fixed
        else:
            self._queue = self.faults.choose(self.queues, self.place + self.count, self._tried, now)
        self.count += 1
        self._began = now
        return self._queue, left

    def _may_retry(self) -> bool:
        cause = self._cause
        if not isinstance(cause, BrokerError) or cause.code in RETRIED:
            return True
        return cause.code == ResponseCode.NO_PERMISSION and _NOT_WRITABLE in cause.text

    def _give_up(self, left: float) -> None:
        if self.count == 1 and self._cause is not None:
            raise self._cause
        reason = "its timeout is over" if left <= 0 else f"{self.count} attempts have failed"
        stored = "may have been stored nevertheless" if self._is_unknown else "was not stored"
        raise SendError(
            f"the message to {self.message.topic!r} was not confirmed, {reason}; it {stored} "
            f"(its id is {self.message.msg_id})",
            tuple(self._attempts),
        ) from self._cause

    def failed(self, error: RocketMQError, now: float) -> None:
        assert self._queue is not None
        self._cause = error
        self._is_unknown |= _may_be_stored(error)
        self._attempts.append(f"{self._queue.broker_name}:{self._queue.queue_id}: {error}")
        self._tried = {self._queue.broker_name}
        if isinstance(error, RemotingError | BrokerError):
            self.faults.failed(self._queue.broker_name, now)

    def answered(self, answer: Command, address: str, now: float) -> SendResult | None:
        """The result, or None when the message is to be sent again."""
        assert self._queue is not None
        try:
            result = result_of(self.message, self._queue, answer, address)
        except BrokerError as error:
            self.failed(error, now)
            return None
        self.faults.succeeded(self._queue.broker_name, (now - self._began) * 1000, now)
        if self.strict_store and result.status is not SendStatus.SEND_OK and self.count < self.most:
            self.failed(SendError(f"stored, but {result.status}"), now)
            return None
        return result


Chooser = Callable[[Sequence[MessageQueue]], MessageQueue]


def to_queue(queue: MessageQueue | None) -> Chooser | None:
    """This queue; None leaves the choice to the producer."""
    return None if queue is None else (lambda queues: queue)


def by_key(key: str) -> Chooser:
    """The queue of the key."""
    return lambda queues: queue_by_key(queues, str(key))
