"""Metadata rows in the form every engine keeps: bytes and integers, by field name.

Text is kept as its bytes, since names may come from the wire with bytes that are no UTF-8, and
tables as AMQP tables, which keep the types of their values. Whatever cannot be kept is refused
here, before a change is queued: one bad row must never fail the commit of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from headrace.errors import MalformedError
from headrace.store.api.message_log import (
    BindingRow,
    CursorRow,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    PinRow,
    PolicyRow,
    QueueRow,
    RetryRow,
    Row,
    SecretRow,
    TopicPermissionRow,
    TopicRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)
from headrace.wire.amqp.values import decode_table, decode_value, encode_table, encode_value, utf8

Kept = bytes | int
Values = dict[str, Kept]
# Some kind of row, the same in all places of a signature.
R = TypeVar(
    "R",
    ExchangeRow,
    QueueRow,
    BindingRow,
    TopicRow,
    CursorRow,
    RetryRow,
    PinRow,
    PolicyRow,
    UserRow,
    SecretRow,
    PermissionRow,
    TopicPermissionRow,
    UserLimitsRow,
    VhostLimitsRow,
    ParameterRow,
)

# What tells one row of a kind from another. A queue is also told from its predecessors by its id.
IDENTITY: Final[Mapping[type[Row], tuple[str, ...]]] = {
    ExchangeRow: ("vhost", "name"),
    QueueRow: ("vhost", "name"),
    BindingRow: ("vhost", "source", "to_queue", "destination", "key", "arguments"),
    TopicRow: ("vhost", "name"),
    ParameterRow: ("vhost", "component", "name"),
    CursorRow: ("topic", "reader_group", "token", "lane", "partition"),
    RetryRow: ("topic", "reader_group", "lane", "partition", "place"),
    PinRow: ("vhost", "query", "kind", "name"),
    PolicyRow: ("vhost", "name"),
    UserRow: ("name",),
    SecretRow: ("user",),
    PermissionRow: ("user", "vhost"),
    TopicPermissionRow: ("user", "vhost", "exchange"),
    UserLimitsRow: ("user",),
    VhostLimitsRow: ("vhost",),
}

# The order of a catalogue: oldest queue first, everything else by what identifies it.
ORDER: Final[Mapping[type[Row], tuple[str, ...]]] = {**IDENTITY, QueueRow: ("id", "vhost", "name")}


def row_values(row: Row) -> Values:
    """The row as it is kept; MalformedError when there is no such form."""
    values = {name: _keep(getattr(row, name)) for name in field_names(type(row))}
    if isinstance(row, BindingRow) and row.arguments:
        # Part of the identity: the same arguments in another order are the same binding.
        values["arguments"] = encode_table(_sorted_table(row.arguments))
    return values


def make_row(kind: type[R], values: Mapping[str, Kept]) -> R:
    """The inverse of row_values; MalformedError and the like when the values are damaged."""
    return kind(**{name: _READERS[name](values[name]) for name in field_names(kind)})


def field_names(kind: type[Row]) -> tuple[str, ...]:
    return _FIELDS[kind]


def read_text(kept: Kept) -> str:
    """The inverse of utf8()."""
    return _bytes(kept).decode("utf-8", "surrogateescape")


_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in IDENTITY}


def _keep(value: object) -> Kept:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise MalformedError("an integer does not fit into 64 bits")
        return int(value)
    if isinstance(value, tuple):
        return encode_value(value)
    if isinstance(value, Mapping):
        return encode_table(value)
    raise MalformedError(f"a {type(value).__name__} cannot be kept in a row")


def _sorted_table(table: Mapping[str, object]) -> dict[str, object]:
    return {name: _sorted(table[name]) for name in sorted(table)}


def _sorted(value: object) -> object:
    """``value`` with all tables inside it sorted; it was encoded before, so it is not too deep."""
    if isinstance(value, Mapping):
        return _sorted_table(value)
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


# -- reading ------------------------------------------------------------------------------------


def _bytes(kept: Kept) -> bytes:
    if not isinstance(kept, bytes):
        raise MalformedError(f"expected bytes, found {kept!r}")
    return kept


def _read_int(kept: Kept) -> int:
    if not isinstance(kept, int):
        raise MalformedError(f"expected an integer, found {kept!r}")
    return kept


def _read_bool(kept: Kept) -> bool:
    return bool(_read_int(kept))


def _read_table(kept: Kept) -> dict[str, object]:
    data = _bytes(kept)
    table, end = decode_table(data)
    if end != len(data):
        raise MalformedError("a table is followed by other bytes")
    return table


def _read_tags(kept: Kept) -> tuple[str, ...]:
    tags, _ = decode_value(_bytes(kept), 0)
    if not isinstance(tags, list):
        raise MalformedError("tags are not a list")
    return tuple(str(tag) for tag in tags)


def _read_numbers(kept: Kept) -> tuple[int, ...]:
    numbers, _ = decode_value(_bytes(kept), 0)
    if not isinstance(numbers, list) or not all(isinstance(one, int) for one in numbers):
        raise MalformedError("ranges are not a list of numbers")
    return tuple(numbers)


# A field that is not named here is text.
_SPECIAL: Mapping[str, Callable[[Kept], Any]] = {
    "id": _read_int,
    "priority": _read_int,
    "auto_delete": _read_bool,
    "internal": _read_bool,
    "to_queue": _read_bool,
    "arguments": _read_table,
    "definition": _read_table,
    "limits": _read_table,
    "tags": _read_tags,
    "queues": _read_int,
    "created_at": _read_int,
    "highest": _read_int,
    "settings": _read_table,
    "numbers": _read_table,
    "lane": _read_int,
    "partition": _read_int,
    "place": _read_int,
    "floor": _read_int,
    "epoch": _read_int,
    "attempts": _read_int,
    "due": _read_int,
    "dead": _read_bool,
    "ranges": _read_numbers,
    "max_bytes": _read_int,
    "updated_at": _read_int,
    "positions": _read_table,
    "lost": _read_bool,
}
_READERS = {name: _SPECIAL.get(name, read_text) for names in _FIELDS.values() for name in names}
