"""The SQL behind each change. Every statement takes its values by field name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.store.api import (
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
from headrace.store.rows import IDENTITY, ORDER, field_names

_TABLES: Mapping[type[Row], str] = {
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


def _select(kind: type[Row]) -> str:
    columns, order = ", ".join(field_names(kind)), ", ".join(ORDER[kind])
    return f"SELECT {columns} FROM {_TABLES[kind]} ORDER BY {order}"


def _upsert(kind: type[Row]) -> str:
    names = field_names(kind)
    values = ", ".join(f":{name}" for name in names)
    return f"INSERT OR REPLACE INTO {_TABLES[kind]} ({', '.join(names)}) VALUES ({values})"


def _remove(kind: type[Row]) -> str:
    wanted = " AND ".join(f"{name} = :{name}" for name in IDENTITY[kind])
    return f"DELETE FROM {_TABLES[kind]} WHERE {wanted}"


def _remove_queue_bindings(id_condition: str) -> str:
    """Remove the bindings of a queue name, if the queue that has the name now is the one meant."""
    return f"""
        DELETE FROM bindings
        WHERE vhost = :vhost AND to_queue = 1 AND destination = :name AND EXISTS (
            SELECT 1 FROM queues WHERE vhost = :vhost AND name = :name AND {id_condition}
        )
    """


SELECT: Final = {kind: _select(kind) for kind in _TABLES}
SELECT_VHOSTS: Final = "SELECT name FROM vhosts ORDER BY name"
SELECT_HIGHEST_QUEUE_ID: Final = "SELECT value FROM counters WHERE name = 'highest_queue_id'"

SAVE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (_upsert(kind),) for kind in _TABLES},
    QueueRow: (
        _remove_queue_bindings("id <> :id"),  # another queue: it starts without any
        _upsert(QueueRow),
        "UPDATE counters SET value = max(value, :id) WHERE name = 'highest_queue_id'",
    ),
    TopicRow: (
        _upsert(TopicRow),
        "UPDATE counters SET value = max(value, :highest) WHERE name = 'highest_queue_id'",
    ),
}

DELETE: Final[Mapping[type[Row], tuple[str, ...]]] = {
    **{kind: (_remove(kind),) for kind in _TABLES},
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

SAVE_VHOST: Final = ("INSERT OR REPLACE INTO vhosts (name) VALUES (:vhost)",)
_TOPICS_OF_VHOST = "SELECT uuid FROM topics WHERE vhost = :vhost"
DELETE_VHOST: Final = (
    "DELETE FROM vhosts WHERE name = :vhost",
    f"DELETE FROM cursors WHERE topic IN ({_TOPICS_OF_VHOST})",
    f"DELETE FROM retries WHERE topic IN ({_TOPICS_OF_VHOST})",
    *(
        f"DELETE FROM {table} WHERE vhost = :vhost"
        for kind, table in _TABLES.items()
        if "vhost" in field_names(kind)
    ),
)
