"""Topics of an engine whose calls block: each call in a thread, appends in batches.

The engine's own catalogue is the truth: what another node declares there is found by polling.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.core.topics.append_batcher import AppendBatcher, Gate
from headrace.core.topics.async_engine import CancelRead, DeclaredTopic, EngineReply, Then
from headrace.errors import BodyTooLarge, EngineUnavailable, NoSuchTopic
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicInfo, TopicSpec

if TYPE_CHECKING:
    from headrace.core.clock import Timer, Timers


import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

from headrace.errors import BrokerError

logger = logging.getLogger(__name__)

T = TypeVar("T")

POLL_MS = 3000  # between looks at the catalogue
FIRST_PAUSE_MS = 5  # of a waiting read, doubled until
LAST_PAUSE_MS = 500


class BlockingAdapter:
    """See core.topics.async_engine.AsyncTopicEngine. One object serves one vhost."""

    def __init__(
        self,
        engine: TopicEngine,
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
        self.timers = timers
        self._soon = soon
        self._known: dict[str, str] = {}  # topic -> uuid
        self._seen: dict[str, TopicInfo] = {}  # by uuid, when they were last listed
        self._changes = 0  # of what is known: an answer to an earlier question is out of date
        self._batchers: dict[str, AppendBatcher] = {}
        self.waits: set[_PolledRead] = set()
        self._poll_timer: Timer | None = None
        self._is_away = False  # as far as the last look at the catalogue has shown
        self.on_change: Callable[[], None] = lambda: None  # topics came or went
        self._closed = False

    @property
    def max_body(self) -> int:
        return self._engine.max_body

    def submit(self, call: Callable[[TopicEngine], T], then: Then[T]) -> None:
        self._workers.run(self.name, lambda: call(self._engine), then)

    # -- the catalogue ---------------------------------------------------------------------------

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
            self.submit(lambda engine: engine.uuids(), lambda answer: self._polled(answer, asked))

    def _poll_later(self) -> None:
        self._poll_timer = self.timers.after(POLL_MS, self._poll)

    def _polled(self, answer: EngineReply[dict[str, str]], asked: int) -> None:
        if answer.error is not None:
            if not self._is_away:  # once is enough: it may take hours
                logger.warning("engine '%s': no list of its topics: %s", self.name, answer.error)
            self._is_away = True
        elif answer.value is not None:
            if self._is_away:
                logger.warning("engine '%s' is reachable again", self.name)
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

    # -- topics ----------------------------------------------------------------------------------

    def declare(self, spec: TopicSpec, then: Then[DeclaredTopic]) -> None:
        was_known = self.knows(spec.name)

        def done(answer: EngineReply[TopicInfo]) -> None:
            if answer.value is None:
                then(EngineReply(error=answer.error))
                return
            info = answer.value
            created = not was_known and self._known.get(info.name) != info.uuid
            self._take({**self._known, info.name: info.uuid})
            then(EngineReply(DeclaredTopic(info, created)))

        self.submit(lambda engine: engine.create(spec), done)

    def delete(self, topic: str, then: Then[None]) -> None:
        def done(answer: EngineReply[None]) -> None:
            if answer.error is None or isinstance(answer.error, NoSuchTopic):
                self._take({n: uuid for n, uuid in self._known.items() if n != topic})
            then(answer)

        self.submit(lambda engine: engine.delete(topic), done)

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

        self.submit(lambda engine: engine.topics(), done)

    def _last_seen(self) -> list[TopicInfo]:
        return [
            self._seen.get(uuid) or TopicInfo(name, uuid, self.name, 1, None, 0)
            for name, uuid in self._known.items()
        ]

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry], then: Then[list[int]]) -> None:
        for entry in entries:
            if len(entry.body) > self.max_body:
                text = (
                    f"a body of {len(entry.body)} bytes is larger than {self.max_body}, the limit "
                    f"of engine '{self.name}'; nothing was appended"
                )
                then(EngineReply(error=BodyTooLarge(text)))
                return
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
                for wait in tuple(self.waits):
                    if wait.topic == topic:
                        wait.nudge()

        self.submit(lambda engine: engine.append(topic, entries), done)

    def read(
        self, topic: str, reader: ConsumerSpec, batch: int, wait_ms: int, then: Then[ReadResult]
    ) -> CancelRead:
        until = self.timers.clock.now_ms() + wait_ms
        wait = _PolledRead(self, topic, reader, batch, until, then)
        self.waits.add(wait)
        wait.attempt()
        return wait.cancel

    def close(self) -> None:
        """The vhost is deleted; the topics stay where they are."""
        self._closed = True
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        for wait in tuple(self.waits):
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
        self._reader = reader
        self._batch = batch
        self._until = until
        self._then = then
        self._pause = FIRST_PAUSE_MS
        self._timer: Timer | None = None
        self._over = False
        self._is_reading = False
        self._again = False  # something was appended during the read

    def attempt(self) -> None:
        if self._over or self._is_reading:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._is_reading, self._again = True, False
        self._engine.submit(lambda one: one.read(self.topic, self._reader, self._batch), self._read)

    def nudge(self) -> None:
        """There may be something now."""
        self._again = True
        self._pause = FIRST_PAUSE_MS
        self.attempt()

    def cancel(self) -> None:
        """The reader is gone. What is being read for it now comes again after its lease."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._engine.waits.discard(self)

    def _read(self, answer: EngineReply[ReadResult]) -> None:
        self._is_reading = False
        if self._over:
            return
        left = self._until - self._engine.timers.clock.now_ms()
        if answer.value is None or answer.value.messages or left <= 0:
            self.cancel()
            self._then(answer)
        elif self._again:
            self.attempt()
        else:
            self._timer = self._engine.timers.after(min(self._pause, left), self.attempt)
            self._pause = min(2 * self._pause, LAST_PAUSE_MS)


THREADS = 8
MAX_WAITING = 10_000  # calls that have no thread yet


class EngineThreads:
    """A bounded pool. Threads are made when they are first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = THREADS) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="headrace-topics")
        self._waiting = 0
        self._closed = False

    def run(self, engine: str, call: Callable[[], T], then: Then[T]) -> None:
        """Make the call in a thread; reply on the loop. One call too many is refused at once."""
        if self._closed or self._waiting >= MAX_WAITING:
            why = "the broker stops" if self._closed else f"{self._waiting} requests wait already"
            text = f"engine '{engine}' takes no more calls: {why}; nothing was done"
            then(EngineReply(error=EngineUnavailable(text)))
            return
        self._waiting += 1

        def done(future: Future[T]) -> None:
            answer: EngineReply[T] = _answer(engine, future)
            try:
                self._loop.call_soon_threadsafe(deliver, answer)
            except RuntimeError:
                logger.debug("engine '%s': the event loop is closed", engine)

        def deliver(answer: EngineReply[T]) -> None:
            self._waiting -= 1
            if not self._closed:
                then(answer)

        self._pool.submit(call).add_done_callback(done)

    def close(self) -> None:
        """Drop the replies; wait for running calls."""
        self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)


def _answer(engine: str, future: Future[T]) -> EngineReply[T]:
    if future.cancelled():
        return EngineReply(error=EngineUnavailable(f"engine '{engine}': the broker stops"))
    error = future.exception()
    if error is None:
        return EngineReply(future.result())
    if isinstance(error, BrokerError):
        return EngineReply(error=error)
    logger.error("engine '%s' failed", engine, exc_info=error)
    text = f"engine '{engine}' failed, the change may have been made: {error}"
    return EngineReply(error=EngineUnavailable(text))
