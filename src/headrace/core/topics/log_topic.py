"""A topic in the commit log: one numbered destination of the log per priority and partition.

Messages stay until retention or the deletion of the topic removes them; readers see what is on
disk. Besides the calls of the engine interface there are those by partition
and offset, for protocols whose clients keep their positions themselves.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from headrace.core.topics.progress_rows import AssignedOffsets, ProgressRows
from headrace.core.vhost_services import VhostServices
from headrace.errors import AccessRefused, DataLost, PreconditionFailed
from headrace.model.log_epochs import Epochs, current_epoch, end_of_epoch
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import (
    MAX_OFFSET,
    Bound,
    Partition,
    message_id,
    partition_id,
    place_of,
)
from headrace.store.api.message_log import (
    DurabilityLevel,
    MessageLog,
    OutgoingMessages,
    RecordDestination,
    StoredExtent,
)
from headrace.store.api.rows import TopicRow
from headrace.store.topics.entry import encode_entries
from headrace.store.topics.groups import TopicGroups
from headrace.store.topics.reads import LoadedEntries, parts_of
from headrace.store.topics.types import Entry, TopicInfo, UniformEntries
from headrace.wire.remoting.names import HIDDEN_TOPICS

if TYPE_CHECKING:
    from headrace.core.topics.exchange_bridge import ExchangeBridge

LOG = "log"


class AppendResult(NamedTuple):
    """Where entries went, and the position of the log to wait for."""

    ids: list[int]
    position: int


class _LogPartition:
    """One partition of one priority."""

    __slots__ = ("end", "next", "number")

    def __init__(self, number: int, end: int) -> None:
        self.number = number  # in the log
        self.next = end  # the offset of the next message
        self.end = end  # behind the last one on disk: readers see no further


_NOTHING = _LogPartition(0, 0)  # no destination of the log has the number 0


class LogTopic:
    """One topic of one vhost. Also the `TopicLog` of its readers."""

    def __init__(
        self,
        services: VhostServices,
        bridge: ExchangeBridge,
        row: TopicRow,
        boot: str,
        number: Callable[[], int],
    ) -> None:
        storage = services.storage
        assert storage.log is not None, "a log topic needs a log"
        self._vhost = services.name
        self._bridge = bridge
        self._storage = storage
        self._log: MessageLog = storage.log
        self.name = row.name
        self.uuid = row.uuid
        self.queues = row.queues
        self.created_at = row.created_at
        self.retention = _retention(row.settings)
        self._partitions = {
            _partition_named(name): _LogPartition(
                int(str(n)), self._log.reads.next_offset(int(str(n)))
            )
            for name, n in row.numbers.items()
        }
        # Position, partition, end then.
        self._pending: deque[tuple[int, _LogPartition, int]] = deque()
        self._turn = 0  # which partition takes the next message without a key
        self._listeners: list[Callable[[], None]] = []
        self.marked = False  # as sessions are: flushed when something is safe
        self.deleted = False
        self.notes = ProgressRows(storage, services.clock, row.uuid)
        self.readers = TopicGroups(row.uuid, self, self.notes, boot, number)
        self.assigned = AssignedOffsets(storage, row.uuid, self.bound)

    # -- what it is ------------------------------------------------------------------------------

    def row(self) -> TopicRow:
        numbers = {_name_of(partition): one.number for partition, one in self._partitions.items()}
        return TopicRow(
            self._vhost,
            self.name,
            self.uuid,
            self.queues,
            self.created_at,
            retention_settings(self.retention),
            dict(numbers),
            max(numbers.values(), default=0),
        )

    def info(self) -> TopicInfo:
        return TopicInfo(
            self.name, self.uuid, LOG, self.queues, self.retention, self.created_at, parts_of(self)
        )

    def numbers_by_partition_id(self) -> dict[int, int]:
        """The number in the log of each queue id: middle 0 .. q - 1, then high, then low."""
        return {
            partition_id(partition, self.queues): one.number
            for partition, one in self._partitions.items()
        }

    def grow(self, queues: int) -> None:
        """Have more queues; messages and positions stay where they are."""
        if any(partition.priority is not Priority.MIDDLE for partition in self._partitions):
            raise PreconditionFailed(
                f"topic '{self.name}' has messages of high or low priority, whose queue ids follow "
                f"those of its {self.queues} queues: their number cannot be changed"
            )
        self.queues = queues
        self._bridge.set_queues(self.name, queues)
        self._storage.save(self.row())

    # -- by partition and offset -----------------------------------------------------------------

    def bounds(self) -> Mapping[Partition, Bound]:
        return {partition: self.bound(partition) for partition in self._partitions}

    def bound(self, partition: Partition) -> Bound:
        """What can be read: from the first message kept to the last one on disk."""
        known = self._partitions.get(partition, _NOTHING)
        return Bound(min(self._log.reads.floor(known.number), known.end), known.end)

    def numbers(self) -> Mapping[int, Partition]:
        """The partitions by their number in the log, which no other partition ever has."""
        return {one.number: partition for partition, one in self._partitions.items()}

    def number_of(self, partition: Partition) -> int | None:
        """The number of a partition; None as long as nothing was ever appended to it."""
        known = self._partitions.get(partition)
        return None if known is None else known.number

    def load(
        self, partition: Partition, start: int, stop: int, max_bytes: int
    ) -> tuple[list[LoadedEntries], int]:
        """Raw entries (store.topics.entry) of start .. stop - 1, and where to go on."""
        known = self._partitions.get(partition, _NOTHING)
        found, at = self._log.reads.read(
            known.number, start, min(stop, known.end), max_bytes=max_bytes
        )
        loaded = [LoadedEntries(one.time, one.offsets, one.contents) for one in found]
        return loaded, at if at < min(stop, known.end) else stop

    def offset_at(self, partition: Partition, time_ms: int) -> int:
        known = self._partitions.get(partition, _NOTHING)
        return min(self._log.reads.first_at(known.number, time_ms), known.end)

    def time_at(self, partition: Partition, offset: int) -> int | None:
        known = self._partitions.get(partition, _NOTHING)
        extent = next(self._log.reads.extents(known.number, offset), None)
        return extent.time if extent is not None else None

    # -- epochs ----------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The current one of the log; for readers that keep their positions themselves."""
        return current_epoch(self._log.reads.epochs(0))  # no destination has the number 0

    def epochs(self, partition: Partition) -> Epochs:
        return self._log.reads.epochs(self.number_of(partition) or 0)

    def check_seen(self, positions: Mapping[Priority, int], epoch: int) -> None:
        """DataLost unless the ids, seen in that epoch, still mean the same messages."""
        for priority, identity in positions.items():
            index, offset = place_of(identity) if identity else (0, -1)
            partition = Partition(priority, index)
            end = end_of_epoch(self.epochs(partition), epoch)
            if offset >= (self.bound(partition).end if end is None else end):
                raise DataLost(
                    f"topic '{self.name}': message {identity} was seen in epoch {epoch}, and the "
                    "log does not have it: it was restored from a backup, or has lost messages"
                )

    # -- appending -------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry], *, tapped: bool = True) -> AppendResult:
        """Append all or nothing; safe once the log has reached the position.

        ``tapped``: queues bound to the topic's exchange get the messages too.
        """
        return self.prepare(entries, tapped=tapped)()

    def prepare(
        self, entries: Sequence[Entry], *, tapped: bool = True
    ) -> Callable[[], AppendResult]:
        """Encode the entries; what is returned appends them."""
        if self.name in HIDDEN_TOPICS:
            raise AccessRefused(f"topic '{self.name}' is internal: only the broker appends to it")
        contents = encode_entries(entries)
        by_partition = self._by_partition(entries)
        if len(by_partition) == 1:
            return partial(self._append_alike, next(iter(by_partition)), contents, tapped)
        parts = {
            partition: [contents[one] for one in found] for partition, found in by_partition.items()
        }

        def append() -> AppendResult:
            ids = [0] * len(entries)
            position = 0
            with self._storage.atomic():
                for partition, indices in by_partition.items():
                    offset, position = self.append_to(partition, parts[partition], tapped=tapped)
                    for number, index in enumerate(indices, message_id(partition.index, offset)):
                        ids[index] = number
            return AppendResult(ids, position)

        return append

    def _append_alike(
        self, partition: Partition, contents: list[bytes], tapped: bool
    ) -> AppendResult:
        first, position = self.append_to(partition, contents, tapped=tapped)
        start = message_id(partition.index, first)
        return AppendResult(list(range(start, start + len(contents))), position)

    def _by_partition(self, entries: Sequence[Entry]) -> Mapping[Partition, Sequence[int]]:
        """Which of the entries go to which partition."""
        if self.queues == 1:
            if isinstance(entries, UniformEntries):
                priorities = {entries.priority}
            else:
                priorities = {entry.priority for entry in entries}
            if len(priorities) == 1:
                return {Partition(priorities.pop(), 0): range(len(entries))}
        found: dict[Partition, list[int]] = {}
        for index, entry in enumerate(entries):
            partition = Partition(entry.priority, self._index_of(entry.key))
            found.setdefault(partition, []).append(index)
        return found

    def append_to(
        self, partition: Partition, contents: Sequence[bytes], *, tapped: bool = True
    ) -> tuple[int, int]:
        """Append encoded entries to one partition; returns the first offset and the position."""
        bridge = self._bridge
        if not tapped or not bridge.has_taps(self.name):
            return self._store(partition, contents)
        with self._storage.atomic():
            first, position = self._store(partition, contents)
            priority = partition.priority
            tap = bridge.tap(self.name, [(priority, content) for content in contents])
        return first, max(position, tap)

    def _store(self, partition: Partition, contents: Sequence[bytes]) -> tuple[int, int]:
        known = self._partitions.get(partition) or self._new_partition(partition)
        first = known.next
        if first + len(contents) > MAX_OFFSET:
            raise PreconditionFailed(f"topic '{self.name}' is full: its offsets have 40 bits")
        position = self._log.append(
            OutgoingMessages(
                contents,
                [RecordDestination(known.number, first, len(contents))],
                DurabilityLevel.FSYNC,
            )
        )
        known.next = first + len(contents)
        if not self._pending:
            self._storage.wait_for_commit(self)
        self._pending.append((position, known, known.next))
        return first, position

    def _index_of(self, key: str | None) -> int:
        if self.queues == 1:
            return 0
        if key is not None:
            return crc32(key.encode()) % self.queues
        self._turn += 1
        return self._turn % self.queues

    def _new_partition(self, partition: Partition) -> _LogPartition:
        if not 0 <= partition.index < self.queues:
            raise PreconditionFailed(
                f"topic '{self.name}' has no queue {partition.index}: "
                f"queues are 0 to {self.queues - 1}"
            )
        number = self._storage.new_queue_number()
        assert number is not None, "numbers are given as long as there is a log"
        known = self._partitions[partition] = _LogPartition(number, 0)
        self._storage.save(self.row())
        return known

    # -- new data --------------------------------------------------------------------------------

    def when_appended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever more can be read; returns what ends that."""
        self._listeners.append(callback)

        def end() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return end

    def flush(self) -> None:
        """Something has become safe: let readers see it."""
        pending, synced = self._pending, self._storage.synced
        moved = False
        while pending and pending[0][0] <= synced:
            _, partition, end = pending.popleft()
            partition.end = end
            moved = True
        if pending:
            self._storage.wait(self)
        if moved:
            for callback in tuple(self._listeners):
                callback()

    # -- space -----------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Remove what retention does not keep: record by record, the oldest first."""
        if self.retention is None:
            return
        numbers = [partition.number for partition in self._partitions.values()]
        # What a pin holds although it was removed does not count.
        kept = sum(map(self._log.space.stored_bytes, numbers))
        kept -= sum(map(self._log.space.kept_bytes, numbers))
        for time, number, extent in heapq.merge(*map(self._ages, self._partitions.values())):
            if not self.retention.ends(stored_at=time, now=now_ms, kept=kept):
                return
            self._log.settle(number, range(extent.first, extent.stop))
            kept -= extent.size

    def _ages(self, partition: _LogPartition) -> Iterator[tuple[int, int, StoredExtent]]:
        for extent in self._log.reads.extents(
            partition.number, self._log.reads.floor(partition.number)
        ):
            if extent.stop <= partition.end:
                yield extent.time, partition.number, extent

    def delete(self) -> None:
        """The topic is gone: so are its messages."""
        self.deleted = True
        self._pending.clear()
        self._storage.delete(self.row())
        for partition in self._partitions.values():
            self._log.space.delete_queue(partition.number)


def _name_of(partition: Partition) -> str:
    return f"{partition.priority.label}.{partition.index}"


def _partition_named(name: str) -> Partition:
    label, _, index = name.partition(".")
    return Partition(Priority[label.upper()], int(index))


def retention_settings(retention: Retention | None) -> dict[str, object]:
    if retention is None:
        return {}
    given = {"retention-ms": retention.ms, "retention-bytes": retention.size}
    return {name: value for name, value in given.items() if value is not None}


def _retention(settings: Mapping[str, object]) -> Retention | None:
    ms, size = settings.get("retention-ms"), settings.get("retention-bytes")
    if ms is None and size is None:
        return None
    return Retention(
        int(str(ms)) if ms is not None else None, int(str(size)) if size is not None else None
    )
