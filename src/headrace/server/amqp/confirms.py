"""Publisher confirms of one channel: every publish answered once, in as few frames as possible."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from struct import Struct

from headrace.wire.amqp.methods import BasicAck, BasicNack

NEVER = 1 << 62  # a position that the log does not reach
_FRAME = Struct(">BHIIQBB").pack
Answer = BasicAck | BasicNack


class Confirms:
    """Publishes are numbered from 1. A number is answered when it and all before it are safe."""

    __slots__ = ("_refused", "_waiting", "answered", "published")

    def __init__(self) -> None:
        self.published = 0
        self.answered = 0
        self._refused: deque[int] = deque()
        self._waiting: deque[tuple[int, int]] = deque()  # (first number, position in the log)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, count: int, position: int, refused: set[int] | None = None) -> None:
        """``count`` more publishes, safe once the log is (0 = they are); some were refused."""
        first = self.published + 1
        self.published += count
        if position:
            self._waiting.append((first, position))
        if refused:
            self._refused += [first + index for index in sorted(refused)]

    def add_pending(self, count: int) -> int:
        """``count`` more publishes, safe once resolve() is called with the number returned."""
        first = self.published + 1
        self.published += count
        self._waiting.append((first, NEVER))
        return first

    def resolve(self, first: int, count: int, position: int, *, refused: bool) -> None:
        """Other engines have answered: now these wait only for the log."""
        at = bisect_left(self._waiting, (first,))
        self._waiting[at] = (first, position)
        if refused:
            numbers = sorted([*self._refused, *range(first, first + count)])
            self._refused = deque(dict.fromkeys(numbers))

    def take_answers(self, durable: int = 0) -> list[Answer]:
        """Answer everything that is safe: acks for whole stretches, nacks in between."""
        waiting = self._waiting
        while waiting and waiting[0][1] <= durable:
            waiting.popleft()
        safe = waiting[0][0] - 1 if waiting else self.published
        answers: list[Answer] = []
        while self._refused and self._refused[0] <= safe:
            first = last = self._refused.popleft()
            while self._refused and self._refused[0] == last + 1 <= safe:
                last = self._refused.popleft()
            if first - 1 > self.answered:
                answers.append(_ack(self.answered, first - 1))
            answers.append(BasicNack(delivery_tag=last, multiple=last > first))
            self.answered = last
        if safe > self.answered:
            answers.append(_ack(self.answered, safe))
            self.answered = safe
        return answers


def answer_frame(channel: int, answer: Answer) -> bytes:
    """As method_frame(): every confirm is sent by this."""
    return _FRAME(1, channel, 13, answer.wire_id, answer.delivery_tag, answer.multiple, 0xCE)


def _ack(answered: int, last: int) -> BasicAck:
    return BasicAck(delivery_tag=last, multiple=last - answered > 1)
