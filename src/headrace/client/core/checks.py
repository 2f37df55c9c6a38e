"""What a request may hold; anything else is refused before it is sent. No I/O.

The broker ends a connection on which it finds a request it cannot read, and with it the work of
all other channels. A slip in a program costs one call here, and says which value is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.errors import PreconditionFailed
from headrace.wire.native.payloads import MAX_ARRAY, MAX_MAP, MAX_NAME

MAX_DEPTH = 32  # as in AMQP, in whose form the broker keeps them

_TEXTS = frozenset(
    (
        "name",
        "type",
        "queue",
        "exchange",
        "source",
        "key",
        "consumer_tag",
        "message_id",
        "kind",
        "topic",
        "group",
        "token",
        "engine",
        "start",
        "reason",
    )
)
_SHORT = frozenset(("key", "consumer_tag"))
_FLAGS = frozenset(
    (
        "durable",
        "exclusive",
        "auto_delete",
        "internal",
        "auto_ack",
        "multiple",
        "requeue",
        "if_unused",
        "if_empty",
    )
)
_NUMBERS = frozenset(("prefetch", "tag", "page"))


def check_fields(fields: Mapping[str, Any]) -> None:
    """TypeError for a value of another kind, PreconditionFailed for one that is too long."""
    for name, value in fields.items():
        if name in _TEXTS:
            if not isinstance(value, str):
                raise _wrong(name, "a string", value)
            if name in _SHORT:
                check_length(name, value)
        elif name in _FLAGS:
            if value is not True and value is not False:
                raise _wrong(name, "True or False", value)
        elif name in _NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise _wrong(name, "a whole number", value)
            if value < 0:
                raise ValueError(f"{name} must not be negative: {value}")


def check_length(name: str, value: str) -> None:
    """The wire has 255 bytes for a name."""
    if len(value) > MAX_NAME // 4 and len(value.encode()) > MAX_NAME:
        raise PreconditionFailed(f"{name} is longer than {MAX_NAME} bytes: {value[:40]}...")


def checked_body(body: object) -> bytes:
    """The bytes of a body that is not `bytes` already."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise _wrong("body", "bytes or a string", body)


def checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise _wrong("key", "a string", key)
    check_length("key", key)
    return key


def checked_table(name: str, value: object) -> dict[str, Any]:
    """Arguments or headers: text as keys at every level, and containers of bounded size."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, "a mapping", value)
    _check_map(name, value, 1)
    return dict(value)


def _check_map(name: str, table: Mapping[Any, Any], depth: int) -> None:
    _check_size(name, len(table), MAX_MAP, depth)
    for key, value in table.items():
        if not isinstance(key, str):
            raise TypeError(f"keys in {name} must be strings, not {key!r:.80}")
        if isinstance(value, Mapping | list | tuple):
            _check_inner(name, value, depth + 1)


def _check_inner(name: str, value: Any, depth: int) -> None:  # noqa: ANN401 - mapping or sequence
    if isinstance(value, Mapping):
        _check_map(name, value, depth)
        return
    _check_size(name, len(value), MAX_ARRAY, depth)
    for one in value:
        if isinstance(one, Mapping | list | tuple):
            _check_inner(name, one, depth + 1)


def _check_size(name: str, size: int, limit: int, depth: int) -> None:
    if size > limit:
        raise PreconditionFailed(f"{size} entries in {name}; at most {limit} are allowed")
    if depth > MAX_DEPTH:
        raise PreconditionFailed(f"{name} is nested deeper than {MAX_DEPTH}")


def _wrong(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {value!r:.80}")
