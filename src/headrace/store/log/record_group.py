"""Records of a large atomic group, measured before their offsets and position are known."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.log import record as r
from headrace.store.log.queue_index import IndexEntry, QueueIndex, entry_weight


class RecordGroup:
    """Offsets count from 0 in every queue, positions from the first record on.

    Once it is appended the loop looks at no single record: the writer's thread encodes them, and
    the log index takes over whole columns.
    """

    __slots__ = ("_records", "_starts", "columns", "counts", "first_offsets", "position", "size",
                 "time")  # fmt: skip

    def __init__(self) -> None:
        self._records: list[OutgoingMessages] = []
        self._starts = array("Q")
        self.size = 0
        self.columns: dict[int, QueueIndex] = {}  # by queue
        self.counts: dict[int, int] = {}  # messages by queue
        self.first_offsets: Mapping[int, int] = {}  # by queue, once it is appended
        self.position = self.time = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, out: OutgoingMessages) -> None:
        size = r.messages_size(out)
        weight = entry_weight(size, len(out.contents), len(out.placed))
        for one in out.placed:
            columns = self.columns.get(one.queue)
            if columns is None:
                columns = self.columns[one.queue] = QueueIndex()
                self.counts[one.queue] = 0
            columns.add(IndexEntry(one.first, one.first + one.count, self.size, weight, 0))
            self.counts[one.queue] += one.count
        self._records.append(out)
        self._starts.append(self.size)
        self.size += size

    def placed(self) -> Iterator[OutgoingMessages]:
        """The records with the offsets that their messages got."""
        offsets = self.first_offsets
        for out in self._records:
            yield out._replace(
                placed=[
                    RecordDestination(one.queue, one.first + offsets[one.queue], one.count)
                    for one in out.placed
                ]
            )

    def at(self, position: int) -> tuple[int, OutgoingMessages] | None:
        """Store time and messages of the record at that position of the log."""
        at = position - self.position
        if not 0 <= at < self.size:
            return None
        return self.time, self._records[bisect_left(self._starts, at)]
