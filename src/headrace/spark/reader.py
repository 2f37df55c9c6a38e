"""Readers of the data source: what Spark calls on the driver and in tasks. Thin."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zlib import crc32

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headrace.bulk.client import ReadableSource
from headrace.model.log_epochs import current_epoch, end_of_epoch
from headrace.model.readable_range import ReadableRange
from headrace.spark import task_plan
from headrace.spark.backends.base import Backend, PinnedBackend, backend_of
from headrace.spark.errors import BadOption, CheckpointLost, DataLost, SourceChanged, SparkError
from headrace.spark.filters import OffsetFilter
from headrace.spark.offsets import SourceOffset, StreamOffset
from headrace.spark.options import LATEST, OffsetLimit, ReadOptions
from headrace.spark.task_plan import PartitionOffsets

logger = logging.getLogger(__name__)


class Task(InputPartition):
    """What one task reads; it travels to an executor."""

    def __init__(self, part: task_plan.TaskRange, uuid: str) -> None:
        super().__init__((part.source, part.partition, part.start, part.end))
        self.part = part
        self.uuid = uuid


class _Reader:
    """What both kinds of reader share. It travels to executors: options only, no connections."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    @property
    def backend(self) -> Backend:
        return backend_of(self.options)

    def complete_sources(self, time_ms: int | None = None) -> dict[str, ReadableSource]:
        """For finite reads: with everything that is committed now, or an error."""
        found = self.backend.sources(time_ms, complete=True)
        for one in found.values():
            if one.gap and self.options.fail_on_data_loss:
                raise SparkError(f"{one.gap}. failOnDataLoss=false reads what is before them")
            if one.gap:
                logger.warning("the read ends before committed messages: %s", one.gap)
        return found

    def read(self, task: InputPartition) -> Iterator[Any]:
        if not isinstance(task, Task):
            return iter(())  # Spark runs one task even when there is nothing to read
        return self.backend.batches(task.part, task.uuid)

    def tasks(
        self, starts: PartitionOffsets, ends: PartitionOffsets, sources: Mapping[str, SourceOffset]
    ) -> list[InputPartition]:
        found = task_plan.ranges(starts, ends, self.options.rows_per_task)
        return [
            Task(replace(part, epoch=known.epochs.get(part.partition)), known.uuid)
            for part in found
            for known in (sources[part.source],)
        ]


class BatchReader(_Reader, DataSourceReader):
    """Everything between two limits, as it is when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        sources = self.complete_sources(options.start.time_ms)
        later = (
            sources if options.end.time_ms is None else self.complete_sources(options.end.time_ms)
        )
        starts = resolve(options.start, sources, options.fail_on_data_loss)
        ends = resolve(options.end, later, False)
        starts = {place: at for place, at in starts.items() if place in ends}
        return self.tasks(*self.narrowed(starts, ends), _offset("", later, ends).sources)

    def narrowed(
        self, starts: PartitionOffsets, ends: PartitionOffsets
    ) -> tuple[PartitionOffsets, PartitionOffsets]:
        return starts, ends


class FilteringReader(BatchReader):
    """The same, with filters on partition, offset and timestamp taken from the query.

    A separate class because Spark refuses readers that take filters unless
    spark.sql.python.filterPushdown.enabled is set.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._narrowing = OffsetFilter()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for one in filters:
            self._narrowing.take(one)
            yield one  # rows at the edges of a range still have to be looked at

    def narrowed(
        self, starts: PartitionOffsets, ends: PartitionOffsets
    ) -> tuple[PartitionOffsets, PartitionOffsets]:
        return self._narrowing.apply(starts, ends, self.backend.sources)


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: its offsets live in Spark's checkpoint, its pin in the broker.

    Spark does not note where a stream began until the first batch is done, and repeats the
    request when that batch is repeated. So it is the pin that knows. Until the batch is planned
    it has a provisional name: a pin of the query's own name means that there was a checkpoint.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._target: StreamOffset | None = None
        self._is_again = False  # there is a pin, so the first batch must be in the checkpoint
        self._is_planned = False
        self._gaps: set[str] = set()  # reported
        self._pinned: Mapping[str, SourceOffset] = {}  # from where on, as far as we know

    # -- offsets --------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, object]:
        options = self.options
        query = options.group or f"spark-{uuid.uuid4().hex[:12]}"
        pins = self._pins
        if pins is not None and options.group is not None:
            known = pins.pinned(query)
            self._is_again = known is not None
            known = known or pins.pinned(self._provisional(query))
            if known is not None:
                return StreamOffset(query, known.sources).to_json()
        sources = self.backend.sources(options.start.time_ms)
        starts = resolve(options.start, sources, options.fail_on_data_loss)
        begin = StreamOffset(query, {name: _source(one, starts) for name, one in sources.items()})
        name = query if pins is None else self._provisional(query)
        self.backend.pin(StreamOffset(name, begin.sources))
        return begin.to_json()

    @property
    def _pins(self) -> PinnedBackend | None:
        backend = self.backend
        return backend if isinstance(backend, PinnedBackend) else None

    def _provisional(self, query: str) -> str:
        """Of this source only: a query may read several under one name."""
        names = ",".join((self.options.kind, *self.options.names))
        return f"{query}.new-{crc32(names.encode()):08x}"

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_rows
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, object]:
        begin = StreamOffset.from_json(start)
        if self._is_again and not self._is_planned:
            raise CheckpointLost(
                f"messages are pinned for '{begin.query}' by an earlier run, but the checkpoint is "
                "new. Restore the old checkpoint; or, to start from the beginning, choose another "
                f"group or remove the pin (headrace pin delete {begin.query})"
            )
        begin, sources = self._checked(begin)
        starts = _starts(begin, sources)
        waiting = [
            task_plan.PlannedPartition(
                one.name,
                partition,
                one.priorities[partition],
                starts[one.name, partition],
                self._end(one.name, partition, there.end),
            )
            for one, partition, there in _partitions(sources)
        ]
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        finish = _offset(begin.query, sources, task_plan.admit(waiting, room))
        if self._target is not None and self._is_planned and finish.sources == begin.sources:
            self._finished(begin)
        return finish.to_json()

    def _finished(self, end: StreamOffset) -> None:
        """A finite query is done, and its last batch in the commit log: Spark asks for more only
        then, and commits no more. A pin that was moved meanwhile belongs to another reader of the
        query too, which may be behind."""
        pins = self._pins
        known = pins.pinned(end.query) if pins is not None else None
        if pins is None or (known is not None and known.sources == self._pinned):
            self.commit(end.to_json())

    def _end(self, name: str, partition: int, end: int) -> int:
        if self._target is None:
            return end
        known = self._target.sources.get(name)
        return min(end, known.next.get(partition, 0)) if known is not None else 0

    def reportLatestOffset(self) -> dict[str, object]:
        sources = self.backend.sources()
        return _offset("", sources, _ends(sources)).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        sources = self.complete_sources()
        self._target = _offset("", sources, _ends(sources))

    # -- batches --------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = StreamOffset.from_json(start), StreamOffset.from_json(end)
        if not self._is_planned:
            begin = self._planned(begin, finish.query)
        begin, sources = self._checked(begin)
        finish = self._seen(finish, sources)
        starts = _starts(begin, sources)
        if self.options.fail_on_data_loss:
            _check_complete(sources, starts, finish)
        ends = {
            (name, partition): at
            for name, one in finish.sources.items()
            for partition, at in one.next.items()
        }
        return self.tasks(starts, ends, finish.sources)

    def _planned(self, begin: StreamOffset, query: str) -> StreamOffset:
        """Where the first batch of this run begins. It is in the checkpoint: the pin is final."""
        self._is_planned = True
        pins = self._pins
        if pins is None:
            return StreamOffset(query, begin.sources)
        provisional = self._provisional(query)
        if begin.query != query:
            # The very first batch, repeated by a run that had generated a name.
            known = pins.pinned(query) or pins.pinned(provisional)
            if known is None:
                raise DataLost(
                    f"the pin of '{query}' is gone, so the start of the stream is unknown. Start "
                    "with a new checkpoint"
                )
            pins.unpin(self._provisional(begin.query))
            begin = known
        begin, _ = self._checked(StreamOffset(query, begin.sources))
        self.commit(begin.to_json())
        pins.unpin(provisional)
        return begin

    def _checked(self, begin: StreamOffset) -> tuple[StreamOffset, dict[str, ReadableSource]]:
        """Where to continue, and the sources as they are; a missing or a replaced one is an error,
        never a fresh start."""
        sources = self.backend.sources()
        gaps = {one.gap for one in sources.values() if one.gap}
        for gap in sorted(gaps - self._gaps):
            logger.warning("the batch ends before committed messages: %s", gap)
        self._gaps = gaps
        for name, known in begin.sources.items():
            found = sources.get(name)
            if found is None or found.uuid != known.uuid:
                raise SourceChanged(
                    f"{self.options.kind} '{name}' was deleted"
                    f"{'' if found is None else ' and created again'} since the last batch: the "
                    "messages of the checkpoint no longer exist. Start with a new checkpoint"
                )
            if not found.uuid:
                _refuse_older(found, known)
        return self._seen(begin, sources), sources

    def _seen(self, position: StreamOffset, sources: Mapping[str, ReadableSource]) -> StreamOffset:
        """The position, if the sources have what was read up to it; without failOnDataLoss it is
        set back to where what they have of it ends."""
        found: dict[str, SourceOffset] = {}
        for name, known in position.sources.items():
            back = _lost(sources[name], known) if name in sources else {}
            for partition, at in back.items():
                text = (
                    f"'{name}' partition {partition}: messages up to offset "
                    f"{known.next[partition] - 1} were read, but the broker no longer has them: it "
                    "was restored from a backup, or has lost messages, and assigns these offsets "
                    "again. failOnDataLoss=false continues"
                )
                if self.options.fail_on_data_loss:
                    raise DataLost(text)
                logger.warning("%s at offset %d", text, at)
            found[name] = replace(known, next={**known.next, **back})
        return StreamOffset(position.query, found)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before ``end`` is in the sink: the broker need not hold it for us."""
        position = StreamOffset.from_json(end)
        # A position that the broker does not have: the plan of the next batch sets it back.
        passed_over = [] if self.options.fail_on_data_loss else [DataLost]
        with suppress(*passed_over):
            self.backend.pin(position)
            self._pinned = position.sources


def _lost(source: ReadableSource, known: SourceOffset) -> dict[int, int]:
    """The partitions of which more was read than exists, and where to continue in them."""
    lost = {one: 0 for one in known.epochs if known.next.get(one) and one not in source.epochs}
    for partition, epochs in source.epochs.items():
        there, epoch = source.ranges[partition], known.epochs.get(partition)
        end = None if epoch is None else end_of_epoch(epochs, epoch)
        if known.next.get(partition, 0) > (there.end if end is None else end):
            lost[partition] = max(there.first, end or 0)
    return lost


def _refuse_older(found: ReadableSource, known: SourceOffset) -> None:
    """A source without an identity gives itself away by ending before what was read of it."""
    for partition, there in found.ranges.items():
        if there.end < known.next.get(partition, 0):
            raise SourceChanged(
                f"'{found.name}' partition {partition} ends at offset {there.end}, and "
                f"{known.next[partition]} was read: it was created again, or its broker has lost "
                "messages. Start with a new checkpoint"
            )


def resolve(
    limit: OffsetLimit, sources: Mapping[str, ReadableSource], must_be_complete: bool
) -> PartitionOffsets:
    """The offset at which reading of each partition begins or ends."""
    offsets: PartitionOffsets = {}
    for name, one in sources.items():
        asked = limit.asked(name)
        _check_partitions(limit, one)
        for partition, there in one.ranges.items():
            at = asked.get(partition, limit.word if limit.word is not None else LATEST)
            if limit.time_ms is not None:
                at = one.at_time.get(partition, there.end)
            elif at < 0:
                at = there.end if at == LATEST else there.first
            elif must_be_complete and at < there.complete:
                raise DataLost(
                    f"'{name}' partition {partition} begins at offset {there.complete}, "
                    f"{at} was requested: messages in between were removed"
                )
            offsets[name, partition] = min(max(at, there.first), there.end)
    return offsets


def _check_partitions(limit: OffsetLimit, one: ReadableSource) -> None:
    """Of a topic at several brokers, not all need have every partition."""
    unknown = sorted(set(limit.positions.get(one.name, {})) - set(one.ranges))
    if unknown:
        raise BadOption(
            f"offsets: '{one.name}' has no partition {unknown[0]}; there are "
            f"{', '.join(map(str, sorted(one.ranges)))}"
        )


def _partitions(
    sources: Mapping[str, ReadableSource],
) -> Iterator[tuple[ReadableSource, int, ReadableRange]]:
    for one in sources.values():
        for partition, there in one.ranges.items():
            yield one, partition, there


def _check_complete(
    sources: Mapping[str, ReadableSource], starts: PartitionOffsets, finish: StreamOffset
) -> None:
    for one, partition, there in _partitions(sources):
        start = starts[one.name, partition]
        wanted = finish.sources.get(one.name)
        end = wanted.next.get(partition, start) if wanted is not None else start
        lost = min(there.complete, end)
        if start < lost:
            raise DataLost(
                f"'{one.name}' partition {partition}: offsets {start} to {lost - 1} are gone, "
                "removed by retention or acknowledged while no pin kept them. "
                "failOnDataLoss=false continues without them"
            )


def _starts(begin: StreamOffset, sources: Mapping[str, ReadableSource]) -> PartitionOffsets:
    """A partition or source that is new begins at its first offset."""
    known = {name: one.next for name, one in begin.sources.items()}
    return {
        (one.name, partition): known.get(one.name, {}).get(partition, there.first)
        for one, partition, there in _partitions(sources)
    }


def _ends(sources: Mapping[str, ReadableSource]) -> PartitionOffsets:
    return {(one.name, partition): there.end for one, partition, there in _partitions(sources)}


def _offset(
    query: str, sources: Mapping[str, ReadableSource], ends: PartitionOffsets
) -> StreamOffset:
    return StreamOffset(query, {name: _source(one, ends) for name, one in sources.items()})


def _source(one: ReadableSource, offsets: PartitionOffsets) -> SourceOffset:
    return SourceOffset(
        one.uuid,
        {partition: offsets[one.name, partition] for partition in one.ranges},
        {partition: current_epoch(epochs) for partition, epochs in one.epochs.items()},
    )
