"""The SQL behind each change. Every statement takes its values by field name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from headrace.errors import MalformedError
from headrace.store.api import rows
from headrace.store.api.rows import Row
from headrace.wire.amqp.values import decode_table, decode_value, encode_table, encode_value, utf8

Kept = bytes | int
Values = dict[str, Kept]
R = TypeVar("R", bound=Row)

# Each kind of row: its table, and what identifies it. The id also distinguishes a queue from its
# predecessors.
_KINDS: Final[tuple[tuple[type[Row], str, str], ...]] = (
    (rows.ExchangeRow, "exchanges", "vhost name"),
    (rows.QueueRow, "queues", "vhost name"),
    (rows.BindingRow, "bindings", "vhost source to_queue destination key arguments"),
    (rows.TopicRow, "topics", "vhost name"),
    (rows.ParameterRow, "parameters", "vhost component name"),
    (rows.CursorRow, "cursors", "topic reader_group token lane partition"),
    (rows.RetryRow, "retries", "topic reader_group lane partition place"),
    (rows.PinRow, "pins", "vhost query kind name"),
    (rows.PolicyRow, "policies", "vhost name"),
    (rows.UserRow, "users", "name"),
    (rows.SecretRow, "secrets", "user"),
    (rows.PermissionRow, "permissions", "user vhost"),
    (rows.TopicPermissionRow, "topic_permissions", "user vhost exchange"),
    (rows.UserLimitsRow, "user_limits", "user"),
    (rows.VhostLimitsRow, "vhost_limits", "vhost"),
)
TABLES: Final[Mapping[type[Row], str]] = {kind: table for kind, table, _ in _KINDS}
IDENTITY: Final[Mapping[type[Row], tuple[str, ...]]] = {
    kind: tuple(names.split()) for kind, _, names in _KINDS
}


def row_values(row: Row) -> Values:
    """The row as it is kept; MalformedError when there is no such form."""
    values = {name: _keep(getattr(row, name)) for name in field_names(type(row))}
    if isinstance(row, rows.BindingRow) and row.arguments:
        # Part of the identity: the same arguments in another order are the same binding.
        values["arguments"] = encode_table(_sorted_table(row.arguments))
    return values


def make_row(kind: type[R], values: Mapping[str, Kept]) -> R:
    """The inverse of row_values; MalformedError and the like when the values are damaged."""
    return kind(**{name: _READERS[name](values[name]) for name in field_names(kind)})


def field_names(kind: type[object]) -> tuple[str, ...]:
    return _FIELDS[kind]


def read_text(kept: Kept) -> str:
    """The inverse of utf8()."""
    return _bytes(kept).decode("utf-8", "surrogateescape")


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


# By the types of fields, as they are written.
_OF_TYPE: Final[Mapping[object, Callable[[Kept], Any]]] = {
    "str": read_text,
    "int": _read_int,
    "bool": _read_bool,
    "tuple[str, ...]": _read_tags,
    "tuple[int, ...]": _read_numbers,
    "Mapping[str, int]": _read_table,
    "Mapping[str, object]": _read_table,
}
_FIELDS: Final[Mapping[type[object], tuple[str, ...]]] = {
    kind: tuple(one.name for one in fields(kind)) for kind in TABLES
}
_READERS: Final = {one.name: _OF_TYPE[one.type] for kind in TABLES for one in fields(kind)}

# By the names of tables; a vhost is nothing but its name.
KINDS: Final[Mapping[str, type[Row] | None]] = {
    "vhosts": None,
    **{table: kind for kind, table in TABLES.items()},
}
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    table: field_names(kind) if kind is not None else ("name",) for table, kind in KINDS.items()
}
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    table: IDENTITY[kind] if kind is not None else ("name",) for table, kind in KINDS.items()
}


def _upsert(kind: type[Row]) -> str:
    names, key = (*field_names(kind), "sum"), IDENTITY[kind]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    values = ", ".join(f":{name}" for name in names)
    return (
        f"INSERT INTO {TABLES[kind]} ({', '.join(names)}) VALUES ({values}) "
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
    )


def _remove(kind: type[Row]) -> str:
    wanted = " AND ".join(f"{name} = :{name}" for name in IDENTITY[kind])
    return f"DELETE FROM {TABLES[kind]} WHERE {wanted}"


def _remove_queue_bindings(id_condition: str) -> str:
    """Remove the bindings of a queue name, if the queue that has the name now is the one meant."""
    return f"""
        DELETE FROM bindings
        WHERE vhost = :vhost AND to_queue = 1 AND destination = :name AND EXISTS (
            SELECT 1 FROM queues WHERE vhost = :vhost AND name = :name AND {id_condition}
        )
    """


def _raise(value: str, name: str) -> str:
    """The complement of a counter stands where a table has the sum of its rows."""
    return f"UPDATE counters SET value = {value}, total = ~{value} WHERE name = {name}"


RAISE_GENERATION: Final = _raise("(value + 1)", "'generation'")
RAISE_TO: Final = _raise("max(value, :value)", ":name")
# For a file that is made again: of two rows with one key the first counts.
INSERT: Final = {
    table: f"INSERT OR IGNORE INTO {table} ({', '.join(names)}, sum) VALUES ({'?, ' * len(names)}?)"
    for table, names in COLUMNS.items()
}
SAVE_DAMAGED: Final = (
    "INSERT INTO damaged_rows (origin, reason, content) VALUES (:origin, :reason, :content)"
)
REMOVE: Final = {kind: _remove(kind) for kind in TABLES}

SAVE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (_upsert(kind),) for kind in TABLES},
    rows.QueueRow: (
        _remove_queue_bindings("id <> :id"),  # another queue: it starts without any
        _upsert(rows.QueueRow),
        _raise("max(value, :id)", "'highest_queue_id'"),
    ),
    rows.TopicRow: (
        _upsert(rows.TopicRow),
        _raise("max(value, :highest)", "'highest_queue_id'"),
    ),
}

DELETE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (REMOVE[kind],) for kind in TABLES},
    rows.ExchangeRow: (
        _remove(rows.ExchangeRow),
        "DELETE FROM bindings WHERE vhost = :vhost AND source = :name",
        "DELETE FROM bindings WHERE vhost = :vhost AND to_queue = 0 AND destination = :name",
    ),
    # The id decides: a late word about an older queue must not touch a newer one of its name.
    rows.QueueRow: (
        _remove_queue_bindings("id = :id"),
        f"{_remove(rows.QueueRow)} AND id = :id",
    ),
    # As for queues; the progress of readers is found by the uuid anyway.
    rows.TopicRow: (
        f"{_remove(rows.TopicRow)} AND uuid = :uuid",
        "DELETE FROM cursors WHERE topic = :uuid",
        "DELETE FROM retries WHERE topic = :uuid",
    ),
    rows.UserRow: (
        _remove(rows.UserRow),
        "DELETE FROM permissions WHERE user = :name",
        "DELETE FROM topic_permissions WHERE user = :name",
        "DELETE FROM user_limits WHERE user = :name",
        "DELETE FROM secrets WHERE user = :name",
    ),
}

DELETE_READER: Final = (
    "DELETE FROM cursors WHERE topic = :topic AND reader_group = :reader_group AND token = :token",
    # A consumer on its own has no retries, and no group has an empty name.
    "DELETE FROM retries WHERE topic = :topic AND reader_group = :reader_group",
)

SAVE_VHOST: Final = (
    "INSERT INTO vhosts (name, sum) VALUES (:vhost, :sum) ON CONFLICT (name) DO NOTHING",
)
_TOPICS_OF_VHOST = "SELECT uuid FROM topics WHERE vhost = :vhost"
DELETE_VHOST: Final = (
    "DELETE FROM vhosts WHERE name = :vhost",
    f"DELETE FROM cursors WHERE topic IN ({_TOPICS_OF_VHOST})",
    f"DELETE FROM retries WHERE topic IN ({_TOPICS_OF_VHOST})",
    *(
        f"DELETE FROM {table} WHERE vhost = :vhost"
        for kind, table in TABLES.items()
        if "vhost" in field_names(kind)
    ),
)
