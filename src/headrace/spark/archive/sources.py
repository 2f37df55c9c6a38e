"""Which queues and topics are archived, and how far they can be read now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from headrace.bulk.client import BulkConnection, ReadableSource
from headrace.spark.backends.broker import translated_errors
from headrace.spark.errors import BadOption
from headrace.wire.native.payloads import Op

AT_ONCE = 500  # destinations of one question


@dataclass(frozen=True, slots=True)
class ArchiveChoice:
    """Names or patterns such as `orders.*`; both empty means everything."""

    queues: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return not self.queues and not self.topics


def archive_sources(connection: BulkConnection, choice: ArchiveChoice) -> list[ReadableSource]:
    """The chosen sources that exist; BadOption when a name or pattern matches none."""
    with translated_errors():
        wanted = [{"queue": name} for name in _queues(connection, choice)]
        wanted += [{"topic": name} for name in _topics(connection, choice)]
        return [
            found
            for start in range(0, len(wanted), AT_ONCE)
            for found in connection.sources(wanted[start : start + AT_ONCE])
        ]


def _queues(connection: BulkConnection, choice: ArchiveChoice) -> list[str]:
    rows = list(_rows(connection, "queues"))
    stored = [str(row["name"]) for row in rows if row["durable"] and not row["exclusive"]]
    if choice.is_all:
        return stored
    return _chosen("queue", stored, choice.queues, "durable queue")


def _topics(connection: BulkConnection, choice: ArchiveChoice) -> list[str]:
    rows = _rows(connection, "topics")
    names = [str(row["name"]) for row in rows if row["engine"] != "memory"]
    if choice.is_all:
        return names
    return _chosen("topic", names, choice.topics, "stored topic")


def _chosen(kind: str, names: Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if not fitting:
            raise BadOption(f"--{kind} {pattern}: no {what} matches")
        found.update(dict.fromkeys(fitting))
    return list(found)


def _rows(connection: BulkConnection, kind: str) -> Iterator[dict[str, object]]:
    page, more = 0, True
    while more:
        answer = connection.call(Op.LIST, kind=kind, page=page)
        yield from answer["rows"]
        page, more = page + 1, answer["more"]
