"""Topics of an engine whose calls block: each call in a thread, appends in batches.

The engine's own catalogue is the truth: what another node declares there is found by polling.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.topics.append_batcher import AppendBatcher, Gate
from headrace.core.topics.async_engine import (
    CancelRead,
    DeclaredTopic,
    EngineReply,
    MessageRow,
    ReadResult,
    Then,
)
from headrace.core.topics.workers import EngineThreads
from headrace.errors import BodyTooLarge, EngineUnavailable, NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import SharedEngine
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    StoredMessage,
    Taken,
    TopicInfo,
    TopicSpec,
)

if TYPE_CHECKING:
    from headrace.core.clock import Timer, Timers

logger = logging.getLogger(__name__)

T = TypeVar("T")

POLL_MS = 3000  # between looks at the catalogue
FIRST_PAUSE_MS = 20  # of a waiting read, doubled until
LAST_PAUSE_MS = 500


class BlockingAdapter:
    """See core.topics.async_engine.Engine. One object serves one vhost."""

    def __init__(
        self,
        engine: SharedEngine,
        workers: EngineThreads,
        timers: Timers,
        soon: Callable[[Callable[[], None]], None],
        *,
        durable: bool = True,
    ) -> None:
        self.durable = durable  # its topics are there after a restart
        self.is_heard_of = not durable  # whether we ever knew its topics
        self.name = engine.name
        self._engine = engine
        self._workers = workers
        self._timers = timers
        self._soon = soon
        self._known: dict[str, str] = {}  # topic -> uuid
        self._seen: dict[str, TopicInfo] = {}  # by uuid, when they were last listed
        self._changes = 0  # of what is known: an answer to an earlier question is out of date
        self._batchers: dict[str, AppendBatcher] = {}
        self._waits: set[_PolledRead] = set()
        self._poll_timer: Timer | None = None
        self._is_away = False  # as far as the last look at the catalogue has shown
        self.on_change: Callable[[], None] = lambda: None  # topics came or went
        self._closed = False

    # -- the catalogue ---------------------------------------------------------------------------

    @property
    def max_body(self) -> int:
        return self._engine.max_body

    def start(self, known: dict[str, str] | None = None) -> None:
        """Poll the catalog; ``known`` is its content at this moment."""
        if known is None:
            self._poll()
        else:
            self._take(known)
            self._poll_later()

    def _poll(self) -> None:
        if not self._closed:
            asked = self._changes
            try:
                self._run(self._engine.uuids, lambda answer: self._polled(answer, asked))
            except EngineUnavailable as error:
                self._polled(EngineReply(error=error), asked)

    def _poll_later(self) -> None:
        self._poll_timer = self._timers.after(POLL_MS, self._poll)

    def _polled(self, answer: EngineReply[dict[str, str]], asked: int) -> None:
        if answer.error is not None:
            if not self._is_away:  # once is enough: it may take hours
                logger.warning("engine '%s': no list of its topics: %s", self.name, answer.error)
            self._is_away = True
        elif answer.value is not None:
            if self._is_away:
                logger.warning("engine '%s' is there again", self.name)
            self._is_away = False
            if asked != self._changes:  # its topics came or went meanwhile: never undo that
                self._poll()
                return
            self._take(answer.value)
        self._poll_later()

    def _take(self, known: dict[str, str]) -> None:
        self.is_heard_of = True
        self._changes += self._known != known
        self._known = known
        self.on_change()

    def knows(self, topic: str) -> bool:
        return topic in self._known

    def names(self) -> Sequence[str]:
        return sorted(self._known)

    def uuid_of(self, topic: str) -> str | None:
        return self._known.get(topic)

    # -- topics ----------------------------------------------------------------------------------

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None:
        was_known = self.knows(spec.name)

        def done(answer: EngineReply[TopicInfo]) -> None:
            if answer.value is None:
                then(EngineReply(error=answer.error))
                return
            info = replace(answer.value, engine=self.name)
            created = not was_known and self._known.get(info.name) != info.uuid
            self._take({**self._known, info.name: info.uuid})
            then(EngineReply(DeclaredTopic(info, created)))

        self._run(lambda: self._engine.create(spec), done)

    def delete(self, topic: str, then: Then[None]) -> None:
        def done(answer: EngineReply[None]) -> None:
            if answer.error is None or isinstance(answer.error, NoSuchTopic):
                self._take({n: uuid for n, uuid in self._known.items() if n != topic})
            then(answer)

        self._run(lambda: self._engine.delete(topic), done)

    def describe(self, topic: str, then: Then[TopicInfo]) -> None:
        self._run(lambda: replace(self._engine.describe(topic), engine=self.name), then)

    def infos(self, then: Then[list[TopicInfo]]) -> None:
        """All of them; while the database is away, what was seen of them last."""
        asked = self._changes

        def done(answer: EngineReply[list[TopicInfo]]) -> None:
            if answer.value is not None:
                self._seen = {info.uuid: info for info in answer.value}
                if asked == self._changes:
                    # Who sees a topic in a list can use it at once.
                    self._take({**self._known, **{info.name: info.uuid for info in answer.value}})
            elif isinstance(answer.error, EngineUnavailable) and self.is_heard_of:
                answer = EngineReply(self._last_seen())
            then(answer)

        try:
            self._run(
                lambda: [replace(info, engine=self.name) for info in self._engine.topics()], done
            )
        except EngineUnavailable as error:
            done(EngineReply(error=error))

    def _last_seen(self) -> list[TopicInfo]:
        return [
            self._seen.get(uuid) or TopicInfo(name, uuid, self.name, 1, None, 0)
            for name, uuid in self._known.items()
        ]

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        for entry in entries:
            if len(entry.body) > self.max_body:
                raise BodyTooLarge(
                    f"a body of {len(entry.body)} bytes is larger than {self.max_body}, the limit "
                    f"of engine '{self.name}'; nothing was appended"
                )
        self._batcher(topic).append(entries, then)

    def _batcher(self, topic: str) -> AppendBatcher:
        batcher = self._batchers.get(topic)
        if batcher is None:
            batcher = AppendBatcher(partial(self._append, topic), self._soon)
            self._batchers[topic] = batcher
        return batcher

    def guard(self, topic: str, gate: Gate | None) -> None:
        """Appends of this node ask ``gate`` first."""
        self._batcher(topic).gate = gate

    def _append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        def done(answer: EngineReply[list[int]]) -> None:
            then(answer)
            if answer.error is None:
                for wait in tuple(self._waits):
                    if wait.topic == topic:
                        wait.nudge()

        self._run(lambda: self._engine.append(topic, entries), done)

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        until = self._timers.clock.now_ms() + wait_ms
        wait = _PolledRead(self, topic, reader, batch, until, then)
        wait.look()  # raises when there are too many calls already
        self._waits.add(wait)
        return wait.cancel

    def look(self, wait: _PolledRead, then: Then[Taken]) -> None:
        """One attempt of a waiting read."""
        self._run(lambda: self._engine.read(wait.topic, wait.reader, wait.batch), then)

    def pause(self, ms: int, callback: Callable[[], None]) -> Timer:
        return self._timers.after(ms, callback)

    def now_ms(self) -> int:
        return self._timers.clock.now_ms()

    def end(self, wait: _PolledRead) -> None:
        self._waits.discard(wait)

    def commit(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None:
        if claim:
            self._run(lambda: self._engine.commit(topic, reader, claim), then)
        else:
            then(EngineReply())

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str,
        then: Then[None],
    ) -> None:
        self._run(lambda: self._engine.nack(topic, reader, claim, ids, delay_ms, reason), then)

    def renew(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], then: Then[None]
    ) -> None:
        self._run(lambda: self._engine.renew(topic, reader, claim), then)

    # -- readers ---------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        positions: Mapping[Priority, int] | None,
        time_ms: int | None,
        then: Then[None],
    ) -> None:
        self._run(
            lambda: self._engine.seek(topic, reader, positions=positions, time_ms=time_ms), then
        )

    def lag(self, topic: str, reader: ConsumerSpec, then: Then[list[PriorityLag]]) -> None:
        self._run(lambda: self._engine.lag(topic, reader), then)

    def groups(self, topic: str, then: Then[list[GroupInfo]]) -> None:
        self._run(lambda: self._engine.groups(topic), then)

    def forget_group(self, topic: str, reader: ConsumerSpec, then: Then[None]) -> None:
        self._run(lambda: self._engine.forget_group(topic, reader), then)

    def dead(
        self, topic: str, group: str, limit: int, then: Then[list[tuple[MessageRow, str]]]
    ) -> None:
        def call() -> list[tuple[MessageRow, str]]:
            found = self._engine.dead(topic, group, limit)
            return [(message_row(message), reason) for message, reason in found]

        self._run(call, then)

    def _run(self, call: Callable[[], T], then: Then[T]) -> None:
        self._workers.run(self.name, call, then)

    def close(self) -> None:
        """The vhost is deleted; the topics stay where they are."""
        self._closed = True
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        for wait in tuple(self._waits):
            wait.cancel()


class _PolledRead:
    """A read that is tried again until there is something, or its time is over."""

    def __init__(
        self,
        engine: BlockingAdapter,
        topic: str,
        reader: ConsumerSpec,
        batch: int,
        until: int,
        then: Then[ReadResult],
    ) -> None:
        self._engine = engine
        self.topic = topic
        self.reader = reader
        self.batch = batch
        self._until = until
        self._then = then
        self._pause = FIRST_PAUSE_MS
        self._timer: Timer | None = None
        self._over = False
        self._looking = False
        self._again = False  # something was appended while we looked

    def look(self) -> None:
        if self._over or self._looking:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._engine.look(self, self._found)
        self._looking, self._again = True, False

    def _look_again(self) -> None:
        """When that fails, only its reader can be notified."""
        try:
            self.look()
        except EngineUnavailable as error:
            self._found(EngineReply(error=error))

    def nudge(self) -> None:
        """There may be something now."""
        self._again = True
        self._pause = FIRST_PAUSE_MS
        self._look_again()

    def cancel(self) -> None:
        """The reader is gone. What is being read for it now comes again after its lease."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._engine.end(self)

    def _found(self, answer: EngineReply[Taken]) -> None:
        self._looking = False
        if self._over:
            return
        taken = answer.value
        left = self._until - self._engine.now_ms()
        if answer.error is not None or taken is None:
            self.cancel()
            self._then(EngineReply(error=answer.error))
        elif taken.messages or left <= 0:
            self.cancel()
            rows = [message_row(message) for message in taken.messages]
            self._then(EngineReply(ReadResult(rows, taken.claim)))
        elif self._again:
            self._look_again()
        else:
            self._timer = self._engine.pause(min(self._pause, left), self._look_again)
            self._pause = min(2 * self._pause, LAST_PAUSE_MS)


def message_row(message: StoredMessage) -> MessageRow:
    return (
        message.id,
        message.priority,
        message.partition_index,
        message.time,
        message.body,
        message.token,
        message.key,
        message.tags,
        message.source_ip,
        message.message_id,
        message.born,
        dict(message.properties),
        message.attempts,
    )
