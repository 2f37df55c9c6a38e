"""What readers of a log topic did, as rows of the metadata, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headrace.core.clock import Clock
from headrace.core.storage import Storage
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition
from headrace.model.topics.retries import Place, Retry
from headrace.store.api.rows import CursorRow, RetryRow
from headrace.store.topics.groups import PartitionCursor, ReaderKey, TopicGroups

ASSIGNED = "assigned"
_TOKEN = "@"  # no consumer has it: a row of a group with claims is another row


class ProgressRows:
    """The Notes of store.topics.groups. Delays use the monotonic clock, rows the wall clock."""

    def __init__(self, storage: Storage, clock: Clock, uuid: str) -> None:
        self._storage = storage
        self._clock = clock
        self._uuid = uuid

    def cursor(self, name: ReaderKey, partition: Partition, cursor: PartitionCursor) -> None:
        ranges = tuple(edge for one in cursor.ranges for edge in one)
        self._storage.save(
            CursorRow(
                self._uuid,
                name.group,
                name.token,
                int(partition.priority),
                partition.index,
                floor=cursor.floor,
                epoch=cursor.epoch,
                ranges=ranges,
            )
        )

    def retry(self, group: str, place: Place, retry: Retry | None) -> None:
        (priority, index), offset = place
        if retry is None:
            self._storage.delete(RetryRow(self._uuid, group, int(priority), index, offset))
            return
        self._storage.save(
            RetryRow(
                self._uuid,
                group,
                int(priority),
                index,
                offset,
                retry.attempts,
                retry.due + self._wall_ahead(),
                retry.dead,
                retry.reason,
            )
        )

    def forget(self, name: ReaderKey) -> None:
        self._storage.delete_reader(self._uuid, name.group, name.token)

    def _wall_ahead(self) -> int:
        return self._clock.expiry_ms() - self._clock.now_ms()

    def restore(
        self, readers: TopicGroups, cursors: Iterable[CursorRow], retries: Iterable[RetryRow]
    ) -> None:
        """Readers go on where they were. What was handed out and not committed comes again, and
        counts as tried once more."""
        for row in cursors:
            pairs = zip(row.ranges[::2], row.ranges[1::2], strict=True)
            cursor = PartitionCursor(row.floor, tuple(pairs), row.epoch)
            partition = Partition(Priority(row.lane), row.partition)
            readers.restore_cursor(ReaderKey(row.reader_group, row.token), partition, cursor)
        ahead, now = self._wall_ahead(), self._clock.now_ms()
        for one in retries:
            # Not before it was due.
            may_be_out = not (one.dead or self._storage.clean or one.due - ahead > now)
            attempts = one.attempts + may_be_out
            retry = Retry(attempts, one.due - ahead, dead=one.dead, reason=one.reason)
            place = (Partition(Priority(one.lane), one.partition), one.place)
            readers.restore_retry(one.reader_group, place, retry)
        readers.suspect()


class AssignedOffsets:
    """Positions of groups whose members divide the queues of a topic, as RocketMQ's do.

    The broker only keeps what they say: the next offset of each queue, the last word wins.
    """

    def __init__(self, storage: Storage, uuid: str, bound: Callable[[Partition], Bound]) -> None:
        self._storage = storage
        self._uuid = uuid
        self._bound = bound
        self._offsets: dict[str, dict[Partition, int]] = {}

    def restore(self, rows: Iterable[CursorRow]) -> None:
        for row in rows:
            partition = Partition(Priority(row.lane), row.partition)
            self._offsets.setdefault(row.reader_group, {})[partition] = row.floor

    def get(self, group: str, partition: Partition) -> int | None:
        """The next offset to consume; None when the group has never said one."""
        return self._offsets.get(group, {}).get(partition)

    def set(self, group: str, partition: Partition, offset: int) -> None:
        known = self._offsets.setdefault(group, {})
        if known.get(partition) == offset:
            return
        known[partition] = offset
        # A member may name any offset. What is stored counts as seen, so it ends with the log.
        floor = min(offset, self._bound(partition).end)
        row = CursorRow(
            self._uuid,
            group,
            _TOKEN,
            int(partition.priority),
            partition.index,
            kind=ASSIGNED,
            floor=floor,
        )
        self._storage.save(row)

    def groups(self) -> Mapping[str, Mapping[Partition, int]]:
        return self._offsets

    def forget(self, group: str) -> None:
        if self._offsets.pop(group, None) is not None:
            self._storage.delete_reader(self._uuid, group, _TOKEN)
