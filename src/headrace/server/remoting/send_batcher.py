"""Sends of one loop turn, appended together: one record in the log for many messages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.core.loop_turn import LoopTurn
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BrokerError, InternalError, NoSuchTopic
from headrace.model.topics.partitions import Partition

logger = logging.getLogger(__name__)


class AppendedRange(NamedTuple):
    """Where messages were appended: number of the track, first offset, position to wait for."""

    number: int
    first: int
    position: int


class PendingSend(NamedTuple):
    contents: Sequence[bytes]
    then: Callable[[AppendedRange], None]
    fail: Callable[[BrokerError], None]


class TurnAppends:
    """Collects sends and appends them when all input is read. Dispatched like a queue, see
    core.loop_turn."""

    def __init__(self, turn: LoopTurn) -> None:
        self._turn = turn
        self._waiting: dict[tuple[LogTopic, Partition], list[PendingSend]] = {}
        self.marked = False

    def add(
        self,
        topic: LogTopic,
        track: Partition,
        contents: Sequence[bytes],
        then: Callable[[AppendedRange], None],
        fail: Callable[[BrokerError], None],
    ) -> None:
        """Append at the end of this turn, in the order of the calls; ``then`` gets the offsets."""
        self._waiting.setdefault((topic, track), []).append(PendingSend(contents, then, fail))
        if not self.marked:
            self._turn.mark_queue(self)

    def dispatch(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for (topic, track), sends in waiting.items():
            try:
                appended = _append(topic, track, sends)
            except BrokerError as error:
                _fail(sends, error)
            except Exception:
                logger.exception("appending to topic %r failed", topic.name)
                _fail(sends, InternalError("unexpected failure; see the broker's log"))
            else:
                _succeed(sends, appended)


def _append(topic: LogTopic, track: Partition, sends: list[PendingSend]) -> AppendedRange:
    if topic.deleted:
        raise NoSuchTopic(
            f"topic '{topic.name}' was deleted while the message was sent; create it and send again"
        )
    contents = [content for one in sends for content in one.contents]
    first, position = topic.append_to(track, contents)
    number = topic.number_of(track)
    assert number is not None, "something was appended"
    return AppendedRange(number, first, position)


def _succeed(sends: list[PendingSend], appended: AppendedRange) -> None:
    number, first, position = appended
    for one in sends:
        one.then(AppendedRange(number, first, position))
        first += len(one.contents)


def _fail(sends: list[PendingSend], error: BrokerError) -> None:
    for one in sends:
        one.fail(error)
