"""The SQL behind each change. Every statement takes its values by field name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from headrace.store.sqlite.rows import IDENTITY, field_names

TABLES: Final[Mapping[type[Row], str]] = {
    ExchangeRow: "exchanges",
    QueueRow: "queues",
    BindingRow: "bindings",
    TopicRow: "topics",
    ParameterRow: "parameters",
    CursorRow: "cursors",
    RetryRow: "retries",
    PinRow: "pins",
    PolicyRow: "policies",
    UserRow: "users",
    SecretRow: "secrets",
    PermissionRow: "permissions",
    TopicPermissionRow: "topic_permissions",
    UserLimitsRow: "user_limits",
    VhostLimitsRow: "vhost_limits",
}


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
SET_ASIDE: Final = (
    "INSERT INTO damaged_rows (origin, reason, content) VALUES (:origin, :reason, :content)"
)
REMOVE: Final = {kind: _remove(kind) for kind in TABLES}

SAVE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (_upsert(kind),) for kind in TABLES},
    QueueRow: (
        _remove_queue_bindings("id <> :id"),  # another queue: it starts without any
        _upsert(QueueRow),
        _raise("max(value, :id)", "'highest_queue_id'"),
    ),
    TopicRow: (
        _upsert(TopicRow),
        _raise("max(value, :highest)", "'highest_queue_id'"),
    ),
}

DELETE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (REMOVE[kind],) for kind in TABLES},
    ExchangeRow: (
        _remove(ExchangeRow),
        "DELETE FROM bindings WHERE vhost = :vhost AND source = :name",
        "DELETE FROM bindings WHERE vhost = :vhost AND to_queue = 0 AND destination = :name",
    ),
    # The id decides: a late word about an older queue must not touch a newer one of its name.
    QueueRow: (
        _remove_queue_bindings("id = :id"),
        f"{_remove(QueueRow)} AND id = :id",
    ),
    # As for queues; the progress of readers is found by the uuid anyway.
    TopicRow: (
        f"{_remove(TopicRow)} AND uuid = :uuid",
        "DELETE FROM cursors WHERE topic = :uuid",
        "DELETE FROM retries WHERE topic = :uuid",
    ),
    UserRow: (
        _remove(UserRow),
        "DELETE FROM permissions WHERE user = :name",
        "DELETE FROM topic_permissions WHERE user = :name",
        "DELETE FROM user_limits WHERE user = :name",
        "DELETE FROM secrets WHERE user = :name",
    ),
}

FORGET_READER: Final = (
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
