"""Lists: filtered by name, sorted, cut into pages, reduced to columns.

A list may have 10,000 rows. Only those that are shown are built, and of them only the columns
that were asked for; sorting uses keys that are cheaper than rows wherever there is one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from headrace.errors import HttpRefused, PreconditionFailed
from headrace.model.patterns import compile_pattern
from headrace.server.http import replies
from headrace.server.http.api_request import ApiRequest

T = TypeVar("T")
Row = dict[str, object]

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 500
SLICE = 200  # rows built and encoded before others get a turn
MATCHED = 16  # names compared with a pattern before others get a turn: up to 1 ms each
SORT_SLICE = 2000  # rows sorted by themselves, and then merged


class ColumnGroup(NamedTuple, Generic[T]):
    """Columns that are cheaper to make together than one by one."""

    names: Sequence[str]
    make: Callable[[T], Row]


@dataclass(eq=False)
class ListColumns(Generic[T]):
    """The columns of a list: each is a function of the thing that is listed."""

    columns: Mapping[str, Callable[[T], object]]
    _: KW_ONLY
    groups: Sequence[ColumnGroup[T]] = ()
    optional: Collection[str] = ()  # left out when the value is None

    def column(self, name: str) -> Callable[[T], object] | None:
        """How to get at one column."""
        for group in self.groups:
            if name in group.names:
                make = group.make
                return lambda thing: make(thing)[name]
        return self.columns.get(name)

    def row(self, thing: T, wanted: Collection[str] | None = None) -> Row:
        """The row, or those top-level columns of it that are wanted."""
        row: Row = {}
        for group in self.groups:
            if wanted is None or any(name in wanted for name in group.names):
                row.update(group.make(thing))
        for name, column in self.columns.items():
            if wanted is None or name in wanted:
                value = column(thing)
                if value is not None or name not in self.optional:
                    row[name] = value
        return row


class _RowColumns(ListColumns[Row]):
    """Of rows that are made already: a row may lack some of the columns."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._names = frozenset[str]().union(*rows)

    def column(self, name: str) -> Callable[[Row], object] | None:
        return (lambda row: row.get(name)) if name in self._names else None

    def row(self, thing: Row, wanted: Collection[str] | None = None) -> Row:
        return thing  # what is not wanted is left out later


async def listed_rows(call: ApiRequest, rows: Sequence[Row]) -> replies.Reply:
    """The answer to a request for a list of which all rows are made: it is short."""
    return await listed(call, rows, _RowColumns(rows))


async def listed(call: ApiRequest, things: Sequence[T], fields: ListColumns[T]) -> replies.Reply:
    """The answer to a request for a list."""
    total = len(things)
    kept = await _filtered(call, things, fields)
    ordered = await _sorted(call, kept, fields)
    columns = _columns(call)
    page, size = call.number("page"), call.number("page_size")
    if page is None:
        return replies.Reply(200, await _encoded(ordered, fields, columns), replies.JSON)
    size = DEFAULT_PAGE_SIZE if size is None else size
    if page < 1 or not 1 <= size <= MAX_PAGE_SIZE:
        raise HttpRefused(
            f"Invalid pagination parameters: page number {page}, page size {size}",
            error="invalid_pagination_parameters",
        )
    pages = max(1, math.ceil(len(ordered) / size))
    if page > pages:
        raise HttpRefused(
            f"Page out of range, page: {page} page size: {size}, len: {len(ordered)}",
            error="page_out_of_range",
        )
    shown = ordered[(page - 1) * size : page * size]
    head = {
        "filtered_count": len(ordered),
        "item_count": len(shown),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": total,
    }
    items = b"".join(await _encoded(shown, fields, columns))
    return replies.Reply(200, replies.encode(head)[:-1] + b',"items":' + items + b"}", replies.JSON)


async def in_slices(things: Iterable[T]) -> list[T]:
    """All of them; others get a turn in between."""
    found: list[T] = []
    stream = iter(things)
    while part := list(islice(stream, SORT_SLICE)):
        found += part
        await asyncio.sleep(0)
    return found


async def _encoded(
    things: Sequence[T], fields: ListColumns[T], columns: _Columns | None
) -> list[bytes]:
    """The rows as parts of one JSON array."""
    parts = [b"["]
    wanted = columns.keys() if columns is not None else None
    for start in range(0, len(things), SLICE):
        if start:
            parts.append(b",")
            await asyncio.sleep(0)
        part = things[start : start + SLICE]
        rows = [fields.row(thing, wanted) for thing in part]
        if columns is not None:
            rows = [_reduced(row, columns) for row in rows]
        parts.append(replies.encode(rows)[1:-1])
    return [*parts, b"]"]


# -- filter --------------------------------------------------------------------------------------


async def _filtered(call: ApiRequest, things: Sequence[T], fields: ListColumns[T]) -> Sequence[T]:
    text = call.query.get("name", "")
    name_of = fields.column("name")
    if not text or name_of is None:
        return things
    if call.flag("use_regex"):
        try:
            pattern = compile_pattern(text, ignore_case=True)
        except PreconditionFailed as error:
            raise replies.bad_request(f"Pagination parameters are invalid: {error}") from None
        kept: list[T] = []
        for start in range(0, len(things), MATCHED):
            await asyncio.sleep(0)
            part = things[start : start + MATCHED]
            kept += [thing for thing in part if pattern.matches(str(name_of(thing)))]
        return kept
    lowered = text.lower()
    return [thing for thing in things if lowered in str(name_of(thing)).lower()]


# -- order ---------------------------------------------------------------------------------------


async def _sorted(call: ApiRequest, things: Sequence[T], fields: ListColumns[T]) -> Sequence[T]:
    path = call.query.get("sort", "")
    if not path:
        return things
    top, *deeper = path.split(".")
    column = fields.column(top)
    if column is None:
        return things

    def keyed(thing: T) -> tuple[tuple[int, object], T]:
        return _comparable(_inside(column(thing), deeper)), thing

    reverse, first = call.flag("sort_reverse"), itemgetter(0)
    slices: list[list[tuple[tuple[int, object], T]]] = []
    for start in range(0, len(things), SORT_SLICE):
        part = map(keyed, things[start : start + SORT_SLICE])
        slices.append(sorted(part, key=first, reverse=reverse))
        await asyncio.sleep(0)
    return await in_slices(thing for _, thing in merge(*slices, key=first, reverse=reverse))


def _inside(value: object, path: Sequence[str]) -> object:
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _comparable(value: object) -> tuple[int, object]:
    """Values of different kinds in one column have an order too; nothing comes first."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return 2, value if isinstance(value, str) else replies.encode(value).decode()


# -- columns -------------------------------------------------------------------------------------

_Columns = dict[str, "_Columns | None"]  # None: the whole value


def _columns(call: ApiRequest) -> _Columns | None:
    text = call.query.get("columns", "")
    if not text:
        return None
    tree: _Columns = {}
    for path in text.split(",")[:200]:
        node = tree
        *above, last = path.split(".")
        for part in above:
            inner = node.setdefault(part, {})
            if inner is None:
                break
            node = inner
        else:
            node[last] = None
    return tree


def _reduced(row: Mapping[str, object], columns: _Columns) -> Row:
    shown: Row = {}
    for name, inner in columns.items():
        if name not in row:
            continue
        value = row[name]
        if inner is None:
            shown[name] = value
        elif isinstance(value, Mapping) and (below := _reduced(value, inner)):
            shown[name] = below
    return shown


def reduced(call: ApiRequest, row: Row) -> Row:
    """One object with only the columns that were asked for."""
    columns = _columns(call)
    return row if columns is None else _reduced(row, columns)
