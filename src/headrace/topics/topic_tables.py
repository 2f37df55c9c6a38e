"""Topics for those who read ranges of ids and write batches by themselves, such as Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.closing import Closing
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql import staging
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.message_rows import Values, queue_of, values_of
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.url import MySqlSettings, parse_url
from headrace.store.topics.types import Entry, TopicRanges

__all__ = ["Entry", "Priority", "TopicTables"]
STAGE_ROWS: Final = 500
STAGE_BYTES: Final = 1 << 20


class TopicTables(Closing):
    """A database with topics."""

    def __init__(self, url: str) -> None:
        self.settings: MySqlSettings = replace(
            parse_url(url), housekeeping=False, readers=2, writers=1
        )
        self._engine = MySqlEngine(self.settings)
        self.bulk = self._engine.bulk
        self.pins = self._engine.pins
        self._is_ready = False

    # -- reading ---------------------------------------------------------------------------------

    def look(self, topic: str, time_ms: int | None = None, patience: float = 0.0) -> TopicRanges:
        """What may be read of the topic now: everything that is committed, unless a gap is left
        after ``patience`` seconds."""
        return self.bulk.ranges(topic, time_ms, patience)

    def pin(self, topic: str, query: str, start: Mapping[Priority, int]) -> None:
        """Retention keeps everything from ``start`` on; committed when this returns."""
        before = {priority: at - 1 for priority, at in start.items()}
        self.pins.pin(topic, query, before, before)

    def pinned(self, topic: str, query: str) -> dict[Priority, int]:
        """From which ids on messages are kept for the query; empty when it has no pin."""
        found = [pin for pin in self.pins.pins([topic]) if pin.query == query]
        return {priority: at + 1 for pin in found for priority, at in pin.positions.items()}

    # -- writing ---------------------------------------------------------------------------------

    def stage(
        self, topic: str, query: str, batch: int, attempt: str, entries: Iterable[Entry]
    ) -> int:
        """Put messages aside; returns how many."""
        _check(query)
        queues = self._engine.describe(topic).queues
        self._make_ready()
        count = size = 0
        portion: list[tuple[Priority, Values]] = []

        def put(session: DbConnection) -> None:
            staging.stage(session, topic, query, batch, attempt, portion)

        for entry in entries:
            queue = queue_of(entry.key, queues) if entry.key is not None else count % queues
            portion.append((entry.priority, values_of(entry, queue, self._engine.max_body)))
            size += len(entry.body)
            count += 1
            if len(portion) >= STAGE_ROWS or size >= STAGE_BYTES:
                self._engine.on_writer(put)
                portion, size = [], 0
        if portion:
            self._engine.on_writer(put)
        return count

    def publish(self, topic: str, query: str, batch: int, attempts: Sequence[str]) -> bool:
        """What these attempts staged, in one transaction; False when it was done before."""
        _check(query)
        self._make_ready()
        # The row of the batch makes it harmless to do it again when the answer was lost.
        return self._engine.on_writer(
            lambda session: staging.publish(session, topic, query, batch, attempts),
            repeatable=True,
        )

    def discard(self, query: str, batch: int) -> None:
        self._make_ready()
        self._engine.on_writer(lambda session: staging.discard(session, query, batch))

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._engine.on_writer(staging.make_tables, repeatable=True)
            self._is_ready = True

    def close(self) -> None:
        self._engine.close()


def _check(query: str) -> None:
    check_token(query, "query")
