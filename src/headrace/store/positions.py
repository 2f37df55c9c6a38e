"""Positions in the metadata: how far readers are in the log, which must never be behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import MAX_OFFSET, track_of
from headrace.store.api.message_log import CursorRow, Declarations, PinRow, RetryRow, TopicRow
from headrace.store.sqlite.metadata import SqliteMetadata

PositionRow = CursorRow | RetryRow | PinRow


@dataclass(frozen=True, slots=True)
class Ahead:
    """A reader that has seen more than the log has: what lies between is lost."""

    number: int  # of the destination in the log
    destination: str
    reader: str
    end: int  # of the log
    offset: int  # the next one of the reader

    def __str__(self) -> str:
        return (
            f"{self.destination}: the log ends at offset {self.end}, {self.reader} is at "
            f"{self.offset}: messages {self.end} to {self.offset - 1} are missing"
        )


def readers_ahead(catalogue: Declarations, next_offset: Callable[[int], int]) -> list[Ahead]:
    """Every reader whose position is behind the end of the log."""
    names = catalogue.destinations()
    return [
        Ahead(number, f"'{names[number][1]}' in vhost '{names[number][0]}'", reader, end, offset)
        for number, reader, offset in _positions(catalogue)
        if (end := next_offset(number)) < offset <= MAX_OFFSET
    ]


def _positions(catalogue: Declarations) -> Iterator[tuple[int, str, int]]:
    """(number of the destination, reader, its next offset) of everything declared."""
    topics = {topic.uuid: topic for topic in catalogue.topics}
    queues = {queue.uuid: queue.id for queue in catalogue.queues}
    rows: list[CursorRow | RetryRow] = [*catalogue.cursors, *catalogue.retries]
    for row in rows:
        number = _number(topics.get(row.topic), Priority(row.lane), row.partition)
        if number is not None:
            yield number, _name(row), _next_offset(row)
    for pin in catalogue.pins:
        topic = topics.get(pin.uuid)
        for partition, offset in _offsets(pin).items():
            if topic is not None:
                number = _number(topic, *track_of(partition, topic.queues))
            else:
                number = queues.get(pin.uuid)
            if number is not None:
                yield number, f"query '{pin.query}'", offset


def _number(topic: TopicRow | None, lane: Priority, partition: int) -> int | None:
    found = topic.numbers.get(f"{lane.label}.{partition}") if topic is not None else None
    return None if found is None else int(str(found))


def _name(row: CursorRow | RetryRow) -> str:
    if isinstance(row, CursorRow) and not row.reader_group:
        return f"consumer '{row.token}'"
    return f"group '{row.reader_group}'"


def _next_offset(row: CursorRow | RetryRow) -> int:
    return max((row.floor, *row.ranges)) if isinstance(row, CursorRow) else row.place + 1


def _offsets(pin: PinRow) -> Mapping[int, int]:
    return {int(partition): int(str(offset)) for partition, offset in pin.positions.items()}


# -- backups ------------------------------------------------------------------------------------


def set_back(directory: Path, early: Declarations) -> None:
    """Give the readers in a copied meta.db their positions in ``early``, which was read before the
    journal was copied.

    A group or pin that was removed since stays removed. One that was added since stays as it is: it
    may be ahead of the journal, which the start of a broker sees to.
    """
    metadata = SqliteMetadata(directory)
    failures: list[Exception] = []
    try:
        late = metadata.load()
        known = {_reader(row) for row in _rows(early)} & {_reader(row) for row in _rows(late)}
        metadata.start(lambda call: call(), lambda ticket: None, failures.append)
        for row in _rows(late):
            if _reader(row) in known:
                metadata.delete(row)
        for row in _rows(early):
            if _reader(row) in known:
                metadata.save(row)
    finally:
        metadata.close()
    if failures:
        raise failures[0]


def _rows(catalogue: Declarations) -> Iterable[PositionRow]:
    return (*catalogue.cursors, *catalogue.retries, *catalogue.pins)


def _reader(row: PositionRow) -> tuple[str, ...]:
    """Whose position it is: of a group, of a consumer without one, or of a query outside."""
    if isinstance(row, PinRow):
        return row.uuid, row.vhost, row.kind, row.name, row.query
    token = row.token if isinstance(row, CursorRow) and not row.reader_group else ""
    return row.topic, row.reader_group, token
