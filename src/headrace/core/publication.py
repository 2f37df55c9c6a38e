"""A publication: messages that become visible in one step, as transactions and staged batches do.

Few messages are published one run after the other. Many are prepared over several loop turns, so
that the step itself looks at no single message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from headrace.core.counters import VhostCounters
from headrace.core.queues.prepared_puts import PreparedPuts
from headrace.core.queues.queue import Queue
from headrace.core.storage import Storage
from headrace.model.message import Destination, PublishedRun, Route
from headrace.store.api.message_log import (
    DurabilityLevel,
    OutgoingMessages,
    PreparedRecords,
    RecordDestination,
)
from headrace.store.topics.types import Entry

FEW_RUNS = 128
FEW_BYTES = 4 << 20
ENTRIES_AT_ONCE = 512  # of a topic, in one record


class EntrySink(ABC):
    """The end of a route at a topic of the log: messages are joined there whatever their keys."""

    __slots__ = ()

    @abstractmethod
    def entries(self, batch: PublishedRun) -> list[Entry]: ...

    @abstractmethod
    def prepare(self, entries: Sequence[Entry]) -> Callable[[], object]:
        """Encode entries; what is returned appends them."""


class Publication:
    """Filled run by run, then either published, inside atomic(), or discarded."""

    def __init__(
        self,
        storage: Storage,
        counters: VhostCounters,
        publish: Callable[[PublishedRun], object],
    ) -> None:
        self._counters = counters
        self._publish = publish
        self._few: list[PublishedRun] | None = []  # None: they are too many
        self._size = 0
        self._stored = 0  # messages in records
        self._log = storage.log
        self._records: PreparedRecords | None = storage.log.prepare() if storage.log else None
        self._puts: dict[Queue, PreparedPuts | None] = {}
        self._entries: dict[EntrySink, list[Entry]] = {}
        self._steps: list[Callable[[], object]] = []

    def add(self, run: PublishedRun) -> None:
        """The run must not grow any more."""
        self._size += run.size
        if self._few is None:
            self._prepare(run)
            return
        self._few.append(run)
        if len(self._few) > FEW_RUNS or self._size > FEW_BYTES:
            few, self._few = self._few, None
            for one in few:
                self._prepare(one)

    def add_step(self, step: Callable[[], object]) -> None:
        """Something else that is published with the messages."""
        self._steps.append(step)

    def publish(self) -> None:
        for run in self._few or ():
            self._publish(run)
        first_offsets = {
            queue.number or 0: queue.put_prepared(puts)
            for queue, puts in self._puts.items()
            if puts is not None
        }
        if self._log is not None and self._records:
            self._log.append_prepared(self._records, first_offsets)
            self._counters.stored += self._stored
        for step in self._steps:
            step()
        for sink, entries in self._entries.items():  # the last ones
            sink.prepare(entries)()

    def discard(self) -> None:
        for puts in self._puts.values():
            if puts is not None:
                puts.discard()

    def _prepare(self, run: PublishedRun) -> None:
        placed: list[RecordDestination] = []
        level = 0
        others: list[Destination] = []
        for destination in run.route.destinations:
            if isinstance(destination, Queue) and (puts := self._puts_of(destination)) is not None:
                first = puts.add(run)
                if run.persistent and puts.level and destination.number is not None:
                    placed.append(RecordDestination(destination.number, first, len(run.contents)))
                    level = max(level, puts.level)
            elif isinstance(destination, EntrySink):
                self._prepare_entries(destination, run)
            else:
                others.append(destination)
        if placed and self._records is not None:
            self._stored += len(run.contents)
            self._records.add(
                OutgoingMessages(
                    run.contents,
                    placed,
                    DurabilityLevel(level),
                    exchange=run.route.exchange,
                    key=run.route.key,
                    channel_number=run.channel_number,
                    ttl_ms=run.ttl_ms,
                )
            )
        if others:
            run.route = Route(run.route.exchange, run.route.key, others)
            self._steps.append(lambda: self._publish(run))

    def _puts_of(self, queue: Queue) -> PreparedPuts | None:
        if queue not in self._puts:
            self._puts[queue] = queue.prepare()
        return self._puts[queue]

    def _prepare_entries(self, sink: EntrySink, run: PublishedRun) -> None:
        """Messages for a topic are joined, whatever their keys."""
        entries = self._entries.setdefault(sink, [])
        entries += sink.entries(run)
        if len(entries) >= ENTRIES_AT_ONCE:
            self._steps.append(sink.prepare(entries))
            self._entries[sink] = []
