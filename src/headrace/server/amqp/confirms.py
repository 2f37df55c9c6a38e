"""Publisher confirms of one channel: every publish answered once, in as few frames as possible."""

from __future__ import annotations

from headrace.wire.amqp.methods import BasicAck, BasicNack, Method


class Confirms:
    """Publishes are numbered from 1. Each number is answered exactly once."""

    __slots__ = ("_refused", "answered", "published")

    def __init__(self) -> None:
        self.published = 0
        self.answered = 0
        self._refused: list[int] = []

    def refuse(self, first: int, indices: set[int]) -> None:
        """Messages of a run that began at number ``first`` were refused by a queue."""
        self._refused += [first + index for index in sorted(indices)]

    def take_answers(self) -> list[Method]:
        """Answer everything published so far: acks for whole stretches, nacks in between."""
        answers: list[Method] = []
        for number in self._refused:
            if number - 1 > self.answered:
                answers.append(_ack(self.answered, number - 1))
            answers.append(BasicNack(delivery_tag=number))
            self.answered = number
        self._refused.clear()
        if self.published > self.answered:
            answers.append(_ack(self.answered, self.published))
            self.answered = self.published
        return answers


def _ack(answered: int, last: int) -> BasicAck:
    return BasicAck(delivery_tag=last, multiple=last - answered > 1)
