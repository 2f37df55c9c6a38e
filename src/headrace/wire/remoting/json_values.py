"""JSON as RocketMQ servers write it, which is not always JSON, and typed values out of it.

Numbers may be keys (`{0:"a"}`), and so may objects (`{{"topic":"T"}:12}`). A map with such keys
is read as a list of pairs, the other way in which some write it. Writing is strict and compact,
except where readers want objects as keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from json import JSONEncoder
from typing import Any, TypeVar

from headrace.errors import MalformedError

DEPTH_MAX = 64

_SPACE = re.compile(r"[ \t\r\n]*").match
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?").match
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]*").match
_scalar = json.JSONDecoder(strict=False).raw_decode

dumps = JSONEncoder(separators=(",", ":")).encode


def json_bytes(value: object) -> bytes:
    """Strict JSON without a blank: one client cuts the text at commas and colons."""
    return dumps(value).encode("ascii")


def object_keyed(pairs: Iterable[tuple[object, object]]) -> str:
    """A map with objects as keys, as Java reads and writes it. This is no JSON."""
    return "{" + ",".join([f"{dumps(key)}:{dumps(value)}" for key, value in pairs]) + "}"


def loads(data: bytes | str) -> Any:  # noqa: ANN401 - JSON is anything
    """The value; MalformedError when no dialect fits."""
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"a body that is no UTF-8: {error}") from None
    try:
        return json.loads(text)
    except RecursionError:
        raise MalformedError("a body that is nested too deeply") from None
    except ValueError:
        return _JsonParser(text).whole()


class _JsonParser:
    """Recursive descent; the depth is limited."""

    __slots__ = ("_place", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def whole(self) -> Any:  # noqa: ANN401
        value = self._value(0)
        self._skip()
        if self._place < len(self._text):
            raise self._wrong("the end")
        return value

    def _wrong(self, wanted: str) -> MalformedError:
        return MalformedError(f"a body that is no JSON: {wanted} wanted at place {self._place}")

    def _skip(self) -> str:
        """Go over blanks; the next character, or nothing."""
        found = _SPACE(self._text, self._place)
        assert found is not None  # it matches the empty text
        self._place = found.end()
        return self._text[self._place : self._place + 1]

    def _take(self, char: str) -> bool:
        if self._skip() != char:
            return False
        self._place += 1
        return True

    def _value(self, depth: int) -> Any:  # noqa: ANN401
        if depth > DEPTH_MAX:
            raise MalformedError("a body that is nested too deeply")
        char = self._skip()
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._several("]", lambda: self._value(depth + 1))
        try:
            value, self._place = _scalar(self._text, self._place)
        except ValueError:
            raise self._wrong("a value") from None
        return value

    def _object(self, depth: int) -> dict[str, Any] | list[list[Any]]:
        pairs = self._several("}", lambda: self._pair(depth))
        return dict(pairs) if all(type(key) is str for key, _ in pairs) else pairs

    def _several(self, end: str, take: Callable[[], Any]) -> list[Any]:
        """What stands between an opening bracket and ``end``."""
        self._place += 1
        found: list[Any] = []
        if self._take(end):
            return found
        while True:
            found.append(take())
            if self._take(end):
                return found
            if not self._take(","):
                raise self._wrong(f"',' or '{end}'")

    def _pair(self, depth: int) -> list[Any]:
        key = self._key(depth)
        if not self._take(":"):
            raise self._wrong("':'")
        return [key, self._value(depth)]

    def _key(self, depth: int) -> Any:  # noqa: ANN401
        char = self._skip()
        if char in ("{", '"'):
            return self._value(depth)
        for pattern in (_NUMBER, _WORD):
            found = pattern(self._text, self._place)
            if found is not None:
                self._place = found.end()
                return found.group()
        raise self._wrong("a key")


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
    """Without halves of character pairs, which JSON can express and UTF-8 cannot encode."""
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
