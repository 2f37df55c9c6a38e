"""Consumers read and commit. A consumer is used by one thread at a time; renew() by any."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, Protocol, runtime_checkable

from headrace.closing import Closing
from headrace.errors import BadTopicValue, BrokerError
from headrace.model.topics.message_priority import priority_named
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, ReadResult
from headrace.topics.messages import (
    Batch,
    Lag,
    Message,
    batch_of,
    lag_of,
    message_of,
    millis,
    positions_of,
    seconds,
    text,
    whole,
)

_ROUND_S: Final = 1.0  # how long one look of an iteration waits


class Consumer(Closing):
    """Reads one topic, alone or as a member of a group.

    Alone: the position moves with commit(). In a group: what is read belongs to this consumer
    until the lease is over; what is not committed by then goes to another member.
    """

    def __init__(
        self, engine: TopicEngine, bell: AppendSignal, topic: str, reader: ConsumerSpec
    ) -> None:
        self.topic = topic
        self.reader = reader
        self._engine = engine
        self._bell = bell
        self._arrivals = Arrivals()
        self._is_closed = False

    # -- reading ---------------------------------------------------------------------------------

    def read(self, n: int = 100, wait: float = 0.0, commit: Batch | None = None) -> Batch:
        """At most ``n`` messages, high priority first; exactly ``n`` when there are enough.

        Waits up to ``wait`` seconds for the first one. ``commit`` is a batch that is done, which
        saves a round trip in some stores.
        """
        whole("a batch", n)
        wait = wait if wait == math.inf else seconds("wait", wait)
        taken = self._next(n, commit)
        if taken.messages or wait <= 0:
            self._arrivals.note(taken)
            return batch_of(taken)
        engine = self._engine
        if isinstance(engine, WaitingEngine):
            return batch_of(engine.read_waiting(self.topic, self.reader, n, wait))
        look = partial(self._next, n, None)
        return batch_of(poll(look, self._bell, self.topic, wait, self._arrivals))

    def _next(self, n: int, done: Batch | None) -> ReadResult:
        engine = self._engine
        if done is not None and done.claim:
            if isinstance(engine, CommitReadEngine):
                return engine.commit_and_read(self.topic, self.reader, done.claim, n)
            self.commit(done)
        return engine.read(self.topic, self.reader, n)

    def batches(self, n: int = 100) -> Iterator[Batch]:
        """Batches without end, each committed when the next one is asked for: when the loop is
        left by an error, the last one is not."""
        done: Batch | None = None
        while not self._is_closed:
            batch = self.read(n, _ROUND_S, commit=done)
            done = batch or None
            if batch:
                yield batch
        if done is not None:
            self.commit(done)

    def __iter__(self) -> Iterator[Message]:
        """Messages without end, committed batch by batch after the last one of each."""
        for batch in self.batches():
            yield from batch

    # -- settling --------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        """Everything in it is done, in all priorities, in one step. ClaimLost when the lease was
        over: nothing is changed then."""
        if _whole(batch).claim:
            self._engine.commit(self.topic, self.reader, batch.claim)

    def nack(self, failed: Message | Batch, delay: float = 0.0, reason: str = "") -> None:
        """Try it again after ``delay`` seconds, here or in another member; after too many attempts
        it is dead. One message: commit the rest of its batch as usual. A whole batch is settled
        with that, and there is nothing to commit."""
        if not isinstance(failed, Message | Batch):
            raise BadTopicValue(
                f"nack() takes a message or a batch of read(), not {type(failed).__name__}"
            )
        delay_ms = round(seconds("delay", delay) * 1000)
        text("reason", reason)
        ids = None
        if isinstance(failed, Message):
            if not failed.claim:
                raise BadTopicValue("the message was not read by a consumer")
            ids = [(priority_named(failed.priority), failed.id)]
        if failed.claim:
            self._engine.nack(self.topic, self.reader, failed.claim, ids, delay_ms, reason)

    def renew(self, batch: Batch) -> None:
        """Restart the lease; ClaimLost when another member has the messages."""
        if _whole(batch).claim:
            self._engine.renew(self.topic, self.reader, batch.claim)

    # -- positions -------------------------------------------------------------------------------

    def seek(
        self,
        positions: Mapping[str, int] | int | None = None,
        *,
        time: datetime | float | None = None,
    ) -> None:
        """Continue after these ids (per priority, or one for all), or with what was stored at
        ``time`` (a number is seconds since 1970) or later. For a group this holds for all
        members; what is out becomes void."""
        self._engine.seek(
            self.topic,
            self.reader,
            positions=None if positions is None else positions_of(positions),
            time_ms=None if time is None else millis(time),
        )

    def lag(self) -> dict[str, Lag]:
        """How far behind, per priority, high first."""
        found = self._engine.lag(self.topic, self.reader)
        return {one.priority.label: lag_of(one) for one in found}

    def dead(self, limit: int = 100) -> list[tuple[Message, str]]:
        """What the group has given up, with the reason."""
        if self.reader.group is None:
            return []
        found = self._engine.dead(self.topic, self.reader.group, limit)
        return [(message_of(one), reason) for one, reason in found]

    # -- life ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends iterations. What is claimed goes to others when the lease is over."""
        self._is_closed = True
        if isinstance(self._engine, ReadAheadEngine):
            with suppress(BrokerError):  # its lease is short
                self._engine.release(self.topic, self.reader)


def _whole(batch: Batch) -> Batch:
    """Not a single message: its claim is that of all the others, too."""
    if not isinstance(batch, Batch):
        raise BadTopicValue(
            f"commit() takes the whole result of read(), not {type(batch).__name__}: read(1) for "
            "one message at a time, nack() for one that failed; nothing was changed"
        )
    return batch


_FIRST_S: Final = 0.001
_LAST_S: Final = 0.2
_LOOKS: Final = 5  # between two messages, while they come often


@runtime_checkable
class WaitingEngine(Protocol):
    """An engine whose reads wait by themselves."""

    def read_waiting(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_s: float
    ) -> ReadResult: ...


@runtime_checkable
class CommitReadEngine(Protocol):
    """An engine that does both in one step."""

    def commit_and_read(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], batch: int
    ) -> ReadResult: ...


@runtime_checkable
class ReadAheadEngine(Protocol):
    """An engine that claims for members what they will read next."""

    def release(self, topic: str, reader: ConsumerSpec) -> None: ...


class AppendSignal:
    """Rung when something was appended to a topic by this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings: dict[str, int] = {}

    def ring(self, topic: str) -> None:
        with self._changed:
            self._rings[topic] = self._rings.get(topic, 0) + 1
            self._changed.notify_all()

    def heard(self, topic: str) -> int:
        with self._changed:
            return self._rings.get(topic, 0)

    def wait(self, topic: str, heard: int, timeout: float) -> bool:
        """Until it rings again."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rings.get(topic, 0) != heard, timeout)


class Arrivals:
    """How often messages come: what is looked for while nothing comes costs the database."""

    def __init__(self) -> None:
        self._last, self._gap = -math.inf, 0.0

    def note(self, taken: ReadResult) -> None:
        if taken.messages:
            now = time.monotonic()
            self._last, self._gap = now, min((3 * self._gap + now - self._last) / 4, _LAST_S)

    def pause_after(self, pause: float) -> float:
        """Twice as long, up to a part of the usual time between messages while one is expected."""
        is_expected = time.monotonic() < self._last + 4 * self._gap
        longest = max(self._gap / _LOOKS, _FIRST_S) if is_expected else _LAST_S
        return min(2 * pause, longest)


def poll(
    read: Callable[[], ReadResult],
    bell: AppendSignal,
    topic: str,
    wait_s: float,
    arrivals: Arrivals,
) -> ReadResult:
    """Read until there is something, or the time is over."""
    deadline = time.monotonic() + wait_s
    pause = _FIRST_S
    while True:
        heard = bell.heard(topic)
        taken = read()
        arrivals.note(taken)
        left = deadline - time.monotonic()
        if taken.messages or left <= 0:
            return taken
        rang = bell.wait(topic, heard, min(pause, left))
        pause = _FIRST_S if rang else arrivals.pause_after(pause)
