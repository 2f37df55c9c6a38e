"""Positions of assigned groups: what members say, and what is stored of it."""

from __future__ import annotations

from typing import Any

from headrace.core.topics.progress_rows import AssignedOffsets
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition
from headrace.store.api.rows import CursorRow


class Rows:
    """In place of the storage."""

    def __init__(self) -> None:
        self.saved: list[CursorRow] = []

    def save(self, row: CursorRow) -> None:
        self.saved.append(row)


def test_a_stored_position_is_never_behind_the_end_of_the_log() -> None:
    rows: Any = Rows()
    assigned = AssignedOffsets(rows, "uuid", lambda partition: Bound(0, 10))

    for offset in (4, 10, 1 << 50):
        assigned.set("g", Partition(Priority.MIDDLE, 0), offset)

    assert assigned.get("g", Partition(Priority.MIDDLE, 0)) == 1 << 50  # as its members see it
    assert [row.floor for row in rows.saved] == [4, 10, 10]
