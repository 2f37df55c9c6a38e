"""Accepting a damaged meta.db: what is readable is declared, orphans get a queue or topic."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from headrace.store.api.metadata import DamagedRow, Declarations
from headrace.store.api.rows import QueueRow, Row, TopicRow
from headrace.store.consistency import numbers_of, remove_dangling_rows
from headrace.store.data_directory import JOURNAL
from headrace.store.disk import write_file
from headrace.store.log import record as r
from headrace.store.log.queue_index import QueueIndex
from headrace.store.log.segment import segment_name
from headrace.store.sqlite.checksums import decoded
from headrace.store.sqlite.database import LOST_AND_FOUND
from headrace.store.sqlite.metadata import FILE_NAME, SqliteMetadata
from headrace.store.sqlite.statements import IDENTITY
from headrace.store.tools.findings import Findings, RepairAction

# Whose damaged rows are taken as they read. Rights are not: they would be given to the wrong
# user, or be wider. Positions of readers are not: they would skip messages.
_DECLARATIONS = ("vhosts", "exchanges", "queues", "bindings", "topics", "pins", "policies",
                 "parameters")  # fmt: skip
_VHOST = "/"


def repair_metadata(path: Path, findings: Findings) -> Iterator[str]:
    """Do what the findings ask for; yields what was done. The directory must be held."""
    if not findings.kept and all(one.remedy is not RepairAction.ACCEPT for one in findings.places):
        return
    with closing(SqliteMetadata(path)) as metadata:
        declarations = metadata.load()
        metadata.set_aside(remove_dangling_rows(declarations))
        damaged, declarations.damaged = declarations.damaged, []
        if damaged:
            yield _write_aside(path / LOST_AND_FOUND, damaged)
        vhosts = [one for one in map(_readable, damaged) if isinstance(one, str)]
        before = {id(row) for rows in declarations.tables().values() for row in rows}
        _add(declarations, damaged)
        for number in sorted(findings.kept - set(declarations.destinations())):
            orphan = _orphan(path, number, findings)
            table = "queues" if isinstance(orphan, QueueRow) else "topics"
            declarations.tables()[table].append(orphan)
        remove_dangling_rows(declarations)
        rows = [
            row for rows in declarations.tables().values() for row in rows if id(row) not in before
        ]
        metadata.accept(rows, {*vhosts, *declarations.vhosts}, findings.state.metadata_generation)
    for row in rows:
        shown = " ".join(str(getattr(row, name)) for name in IDENTITY[type(row)])
        yield f"declared {type(row).__name__.removesuffix('Row').lower()} {shown!a} again"
    yield f"accepted {FILE_NAME} as it is now"
    if damaged and not declarations.users:
        yield "no user is left: the next start creates the default user"


def _readable(one: DamagedRow) -> Row | str | None:
    if not one.values or not (one.is_dangling or one.table in _DECLARATIONS):
        return None
    row = decoded(one.table, one.values)
    numbers = row.numbers.values() if isinstance(row, TopicRow) else ()
    return row if all(isinstance(number, int) for number in numbers) else None


def _add(declarations: Declarations, damaged: list[DamagedRow]) -> None:
    """Rows that can be read, unless there is another of their name or number by now."""
    taken = set(declarations.destinations())
    for one in damaged:
        row = _readable(one)
        if row is None or isinstance(row, str):
            continue
        rows, key = declarations.tables()[one.table], IDENTITY[type(row)]
        same = any(
            all(getattr(row, name) == getattr(other, name) for name in key) for other in rows
        )
        numbers = numbers_of(row)
        if not same and not numbers & taken:
            rows.append(row)
            taken |= numbers


def _write_aside(directory: Path, damaged: list[DamagedRow]) -> str:
    """One line of JSON for each row; bytes as hexadecimal digits. It may hold secrets."""
    directory.mkdir(mode=0o700, exist_ok=True)
    file = directory / f"{FILE_NAME}-rows-{time.time_ns()}.json"
    lines = [
        json.dumps({"table": one.table, "reason": one.reason, "values": one.values}, default=_hex)
        for one in damaged
    ]
    write_file(file, "".join(f"{line}\n" for line in lines).encode())
    return f"wrote {len(damaged)} damaged or missing rows to {LOST_AND_FOUND}/{file.name}"


def _hex(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _orphan(path: Path, number: int, findings: Findings) -> QueueRow | TopicRow:
    name = f"orphan.{number}"
    if _is_topic(path, findings.state.queues[number], [one.base for one in findings.segments]):
        now, track = time.time_ns() // 1_000_000, {"middle.0": number}
        return TopicRow(_VHOST, name, uuid4().hex, 1, now, {}, track, number)
    return QueueRow(number, uuid4().hex, _VHOST, name)


def _is_topic(path: Path, index: QueueIndex, bases: list[int]) -> bool:
    """Records of topics have no route."""
    entry = next(iter(index.entries()))
    base = bases[bisect_right(bases, entry.position) - 1]
    with (path / JOURNAL / segment_name(base)).open("rb") as file:
        file.seek(entry.position - base)
        head = r.read_head(start := file.read(r.HEAD_SIZE))
        if head is None:
            return False
        data = start + file.read(head.size - r.HEAD_SIZE)
    messages = r.decode_messages(data, head, 0)
    return messages is not None and not messages.exchange and not messages.key
