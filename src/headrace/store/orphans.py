"""Rows that refer to something which is not there: not served, and kept for a repair."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headrace.store.api.message_log import (
    NOT_THERE,
    DamagedRow,
    Declarations,
    QueueRow,
    Row,
    TopicRow,
)
from headrace.store.log.commit_log import CommitLog
from headrace.store.sqlite.rows import IDENTITY, row_values

logger = logging.getLogger(__name__)

Stray = tuple[Row, DamagedRow]
# Exchanges that have no row: the default one, those of every vhost, those of topics.
_WITHOUT_ROW = ("amq.", "topic.")


def separate_strays(catalogue: Declarations) -> list[Stray]:
    """Take them out of the catalogue. A vhost that other rows name is added to it: they are
    deleted with their vhost, in one transaction, so it was there."""
    tables = catalogue.tables()
    named = {getattr(row, "vhost", "") for rows in tables.values() for row in rows} - {""}
    catalogue.vhosts += sorted(named - set(catalogue.vhosts))
    found: list[Stray] = []
    for search in (_shared_numbers, _orphans):
        reasons = {id(row): reason for row, reason in search(catalogue)}
        for table, rows in tables.items():
            found += [_stray(table, row, reasons[id(row)]) for row in rows if id(row) in reasons]
            rows[:] = [row for row in rows if id(row) not in reasons]
    catalogue.damaged += [one for _, one in found]
    return found


def older_copy(catalogue: Declarations, seen: int) -> str | None:
    """What is wrong with a catalogue whose generation is below one that the journal has seen."""
    if catalogue.generation >= seen or any(one.table == "counters" for one in catalogue.damaged):
        return None
    return (
        f"it is of generation {catalogue.generation}, and the journal has seen generation {seen}: "
        "it is an older copy, or its last changes are lost. What was declared, deleted, granted or "
        "revoked since then is not in it"
    )


def retained(catalogue: Declarations, log: CommitLog) -> set[int]:
    """Numbers whose messages stay: what is declared, and orphans, which a repair can declare."""
    orphans = catalogue.orphans(log.numbers())
    for number in sorted(orphans):
        if messages := log.live(number)[0]:
            logger.error(
                "%d messages of queue number %d are kept: it is not declared, and it is not known "
                "to be deleted; `headrace fsck --repair` makes a queue of them", messages, number
            )  # fmt: skip
    return orphans | set(catalogue.destinations())


def _stray(table: str, row: Row, reason: str) -> Stray:
    shown = " ".join(ascii(getattr(row, name)) for name in IDENTITY[type(row)])
    return row, DamagedRow(table, f"{shown} {reason}", tuple(row_values(row).values()))


def numbers_of(row: Row) -> set[int]:
    """Under which numbers the journal has its messages."""
    if isinstance(row, TopicRow):
        return {int(str(number)) for number in row.numbers.values()}
    return {row.id} if isinstance(row, QueueRow) else set()


def _shared_numbers(catalogue: Declarations) -> Iterator[tuple[Row, str]]:
    """Two destinations with one number would have each other's messages."""
    taken: set[int] = set()
    rows: list[Row] = [*catalogue.queues, *catalogue.topics]
    for row in rows:
        if shared := numbers_of(row) & taken:
            yield row, f"has the number {min(shared)}, which is that of another"
        taken |= numbers_of(row)


def _orphans(catalogue: Declarations) -> Iterator[tuple[Row, str]]:
    users = {user.name for user in catalogue.users}
    topics = {topic.uuid for topic in catalogue.topics}
    queues = {(queue.vhost, queue.name) for queue in catalogue.queues}
    exchanges = {(exchange.vhost, exchange.name) for exchange in catalogue.exchanges}

    def is_there(vhost: str, exchange: str) -> bool:
        return not exchange or exchange.startswith(_WITHOUT_ROW) or (vhost, exchange) in exchanges

    for rows in catalogue.tables().values():
        for row in rows:
            for name, there in (("user", users), ("topic", topics)):
                if getattr(row, name, None) is not None and getattr(row, name) not in there:
                    yield row, f"is of a {name} {NOT_THERE}"
    for binding in catalogue.bindings:
        vhost, name = binding.vhost, binding.destination
        has_end = (vhost, name) in queues if binding.to_queue else is_there(vhost, name)
        if not has_end or not is_there(vhost, binding.source):
            yield binding, f"binds something {NOT_THERE}"
