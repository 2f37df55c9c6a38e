"""Positions of groups whose members divide the queues among themselves, as RocketMQ's do.

The broker only keeps what they say: the next offset of each queue, the last word wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headrace.core.storage import Storage
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition
from headrace.store.api.rows import CursorRow

ASSIGNED = "assigned"
_TOKEN = "@"  # no consumer has it: a row of a group with claims is another row


class AssignedOffsets:
    """Offsets of one topic, by group and partition."""

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
