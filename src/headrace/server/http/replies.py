"""Answers: JSON as RabbitMQ writes it, errors in its shape."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

import orjson

from headrace.errors import BrokerError, HttpRefused
from headrace.server.http.error_codes import status_of

T = TypeVar("T")
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back to the caller."""

    status: int = 200
    body: bytes | list[bytes] | AsyncGenerator[bytes, None] = b""
    """Parts of a list are sent one by one; a generator's as they come, without a length."""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def encode(value: object) -> bytes:
    """Compact JSON in UTF-8; values without a form in JSON are shown as text."""
    try:
        return orjson.dumps(value, _shown, _OPTIONS)
    except TypeError:  # text that is not UTF-8, or an integer above 64 bits
        return _LENIENT.encode(value).encode("ascii")


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):  # a NamedTuple
        return list(value)
    return str(value)


_OPTIONS = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_NON_STR_KEYS
)
_LENIENT = json.JSONEncoder(separators=(",", ":"), default=_shown)


def data(value: object, status: int = 200) -> Reply:
    return Reply(status, encode(value), JSON)


def of(value: object) -> Reply:
    """The answer with what a handler has returned; None: it is done."""
    return Reply(204) if value is None else data(value)


def created(*, new: bool) -> Reply:
    """The answer to a PUT."""
    return Reply(201 if new else 204)


def not_found() -> HttpRefused:
    """What the path names is not there."""
    return HttpRefused("Not Found", 404, "Object Not Found")


def found(thing: T | None) -> T:
    """What the path names; raises when it is nothing: None, False or an empty list."""
    if not thing:
        raise not_found()
    return thing


def bad_request(reason: str) -> HttpRefused:
    return HttpRefused(reason)


def require(body: Mapping[str, object], *names: str) -> None:
    """Raise unless the body has all of these fields."""
    missing = [f"{{key_missing,{name}}}" for name in names if name not in body]
    if missing:
        raise bad_request(f"[{','.join(missing)}]")


def not_authorised(reason: str) -> HttpRefused:
    return HttpRefused(reason, 401, "not_authorised")


def refusal(error: BrokerError) -> Reply:
    """The reply to a request that failed, in RabbitMQ's shape."""
    status, name = status_of(error)
    return data({"error": name, "reason": str(error)}, status)
