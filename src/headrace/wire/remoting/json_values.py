"""Values of decoded JSON, whatever type the peer gave them. MalformedError tells the field."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeVar

from headrace.errors import MalformedError
from headrace.wire.remoting.fastjson import loads

E = TypeVar("E", bound=IntEnum)
_TRUE = frozenset({"true", "1"})
_FALSE = frozenset({"false", "0", ""})
INT64 = range(-(1 << 63), 1 << 63)


def body_map(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""
    found = loads(body)
    if found == []:
        return {}
    if type(found) is not dict:
        raise MalformedError("a body that is no JSON object")
    return found


def whole(name: str, value: object, default: int = 0) -> int:
    """A 64-bit number, or its text; ``default`` when there is none."""
    if value is None or value == "":
        return default
    if type(value) in (str, float):
        try:
            value = int(value)  # type: ignore[call-overload]
        except (ValueError, OverflowError):
            value = None
    if type(value) is not int or value not in INT64:
        raise MalformedError(f"'{name}' is no 64-bit number")
    return value


def real(name: str, value: object, default: float = 0.0) -> float:
    """A number with a fraction, or its text."""
    if value is None or value == "":
        return default
    if type(value) in (str, int, float):
        try:
            return float(value)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            pass
    raise MalformedError(f"'{name}' is no number")


def text(name: str, value: object, default: str = "") -> str:
    """Text; numbers are taken as text too."""
    if value is None:
        return default
    if type(value) is str:
        return sayable(value)
    if type(value) in (int, float):
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    raise MalformedError(f"'{name}' is no text")


def sayable(value: str) -> str:
    """Without halves of character pairs, which JSON can express and nobody can write again."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def truth(name: str, value: object, default: bool = False) -> bool:
    """true, "true", "1", 1 and their opposites."""
    if value is None:
        return default
    if type(value) is bool:
        return value
    word = str(value).lower() if type(value) in (str, int) else None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise MalformedError(f"'{name}' is neither true nor false")


def items(name: str, value: object) -> list[Any]:
    """A list; nothing is an empty one."""
    if value is None:
        return []
    if type(value) is not list:
        raise MalformedError(f"'{name}' is no list")
    return value


def table(name: str, value: object) -> Mapping[str, Any]:
    """A map with text as keys; nothing is an empty one."""
    if value is None or value == []:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"'{name}' is no map")
    return value


def member(name: str, value: object, kind: type[E], default: E) -> E:
    """A member of an enumeration by its name or its number."""
    if value is None:
        return default
    if type(value) is str and not value.isdecimal():
        found = kind.__members__.get(value)
        if found is not None:
            return found
    else:
        try:
            return kind(whole(name, value))
        except ValueError:
            pass
    raise MalformedError(f"'{name}' is none of {', '.join(kind.__members__)}")
