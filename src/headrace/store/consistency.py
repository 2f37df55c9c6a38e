"""Whether declarations and log fit together: rows that refer to missing ones, messages without a
queue, readers ahead of the log, an older copy of meta.db."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import MAX_OFFSET, partition_of
from headrace.store.api.metadata import NOT_THERE, DamagedRow, Declarations
from headrace.store.api.rows import CursorRow, PinRow, QueueRow, RetryRow, Row, TopicRow
from headrace.store.log.commit_log import CommitLog
from headrace.store.sqlite.statements import IDENTITY, row_values

logger = logging.getLogger(__name__)

Stray = tuple[Row, DamagedRow]
# Exchanges that have no row: the default one, those of every vhost, those of topics.
_WITHOUT_ROW = ("amq.", "topic.")


def remove_dangling_rows(declarations: Declarations) -> list[Stray]:
    """Take them out of the catalogue. A vhost that other rows name is added to it: they are
    deleted with their vhost, in one transaction, so it was there."""
    tables = declarations.tables()
    named = {getattr(row, "vhost", "") for rows in tables.values() for row in rows} - {""}
    declarations.vhosts += sorted(named - set(declarations.vhosts))
    found: list[Stray] = []
    for search in (_shared_numbers, _orphans):
        reasons = {id(row): reason for row, reason in search(declarations)}
        for table, rows in tables.items():
            found += [_dangling(table, row, reasons[id(row)]) for row in rows if id(row) in reasons]
            rows[:] = [row for row in rows if id(row) not in reasons]
    declarations.damaged += [one for _, one in found]
    return found


def find_older_copy(declarations: Declarations, seen: int) -> str | None:
    """What is wrong with a catalogue whose generation is below one that the log has seen."""
    if declarations.generation >= seen or any(
        one.table == "counters" for one in declarations.damaged
    ):
        return None
    return (
        f"it is of generation {declarations.generation}, and the log has seen generation {seen}: "
        "it is an older copy, or its last changes are lost. What was declared, deleted, granted or "
        "revoked since then is not in it"
    )


def numbers_to_retain(declarations: Declarations, log: CommitLog) -> set[int]:
    """Numbers whose messages stay: what is declared, and orphans, which a repair can declare."""
    orphans = declarations.orphans(log.index.queues)
    for number in sorted(orphans):
        if messages := log.reads.live(number)[0]:
            logger.error(
                "%d messages of queue number %d are kept: it is not declared, and it is not known "
                "to be deleted; `headrace fsck --repair` creates a queue from them",
                messages, number,
            )  # fmt: skip
    return orphans | set(declarations.destinations())


def _dangling(table: str, row: Row, reason: str) -> Stray:
    shown = " ".join(ascii(getattr(row, name)) for name in IDENTITY[type(row)])
    return row, DamagedRow(table, f"{shown} {reason}", tuple(row_values(row).values()))


def numbers_of(row: Row) -> set[int]:
    """Under which numbers the log has its messages."""
    if isinstance(row, TopicRow):
        return {int(str(number)) for number in row.numbers.values()}
    return {row.id} if isinstance(row, QueueRow) else set()


def _shared_numbers(declarations: Declarations) -> Iterator[tuple[Row, str]]:
    """Two destinations with one number would have each other's messages."""
    taken: set[int] = set()
    rows: list[Row] = [*declarations.queues, *declarations.topics]
    for row in rows:
        if shared := numbers_of(row) & taken:
            yield row, f"has the number {min(shared)}, which is that of another"
        taken |= numbers_of(row)


def _orphans(declarations: Declarations) -> Iterator[tuple[Row, str]]:
    users = {user.name for user in declarations.users}
    topics = {topic.uuid for topic in declarations.topics}
    queues = {(queue.vhost, queue.name) for queue in declarations.queues}
    exchanges = {(exchange.vhost, exchange.name) for exchange in declarations.exchanges}

    def is_there(vhost: str, exchange: str) -> bool:
        return not exchange or exchange.startswith(_WITHOUT_ROW) or (vhost, exchange) in exchanges

    for rows in declarations.tables().values():
        for row in rows:
            for name, there in (("user", users), ("topic", topics)):
                if getattr(row, name, None) is not None and getattr(row, name) not in there:
                    yield row, f"is of a {name} {NOT_THERE}"
    for binding in declarations.bindings:
        vhost, name = binding.vhost, binding.destination
        has_end = (vhost, name) in queues if binding.to_queue else is_there(vhost, name)
        if not has_end or not is_there(vhost, binding.source):
            yield binding, f"binds something {NOT_THERE}"


# -- readers ahead of the log -------------------------------------------------------------------


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


def readers_ahead(declarations: Declarations, next_offset: Callable[[int], int]) -> list[Ahead]:
    """Every reader whose position is behind the end of the log."""
    names = declarations.destinations()
    return [
        Ahead(number, f"'{names[number][1]}' in vhost '{names[number][0]}'", reader, end, offset)
        for number, reader, offset in _positions(declarations)
        if (end := next_offset(number)) < offset <= MAX_OFFSET
    ]


def _positions(declarations: Declarations) -> Iterator[tuple[int, str, int]]:
    """(number of the destination, reader, its next offset) of everything declared."""
    topics = {topic.uuid: topic for topic in declarations.topics}
    queues = {queue.uuid: queue.id for queue in declarations.queues}
    rows: list[CursorRow | RetryRow] = [*declarations.cursors, *declarations.retries]
    for row in rows:
        number = _number(topics.get(row.topic), Priority(row.lane), row.partition)
        if number is not None:
            yield number, _name(row), _next_offset(row)
    for pin in declarations.pins:
        topic = topics.get(pin.uuid)
        for partition, offset in _offsets(pin).items():
            if topic is not None:
                number = _number(topic, *partition_of(partition, topic.queues))
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
