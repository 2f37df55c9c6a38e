"""`name=value` on the command line: properties, headers and arguments.

`name=text` is text, `name:=JSON` is anything JSON can say. Arguments of queues and exchanges are
mostly numbers, so for them `name=10` and `name=true` mean what they look like.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from headrace.cli.support.options import Command, repeatable
from headrace.cli.support.output import escaped
from headrace.client.properties import properties_map
from headrace.errors import ConfigError

_WHOLE = re.compile(r"-?\d{1,18}")
_NUMBERS = ("priority", "timestamp", "delivery_mode")
_LARGEST, _SMALLEST = (1 << 63) - 1, -(1 << 63)


def arguments_option(example: str) -> Callable[[Command], Command]:
    """--argument, as ``arguments``."""
    text = f"{example}; NAME:=JSON for the rest; repeatable."
    return repeatable("--argument", "arguments", "NAME=VALUE", text)


def headers_of(pairs: Iterable[str]) -> dict[str, object]:
    """For --header."""
    return dict(_split(pair, "--header") for pair in pairs)


def arguments_of(pairs: Iterable[str]) -> dict[str, object]:
    """For --argument."""
    found = {}
    for pair in pairs:
        name, value = _split(pair, "--argument")
        is_plain = f"{name}={value}" == pair
        found[name] = _guess(str(value)) if is_plain else value
    return found


def properties_of(pairs: Iterable[str]) -> dict[str, object]:
    """For --property."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, value = _split(pair, "--property")
        if name == "headers":
            raise ConfigError("--property headers: give each with --header name=value")
        try:
            properties_map({name: value})
        except TypeError as error:
            raise ConfigError(f"--property {escaped(name)}: {error}") from None
        found[name] = _number(name, value) if name in _NUMBERS else str(value)
    return found


def _split(pair: str, option: str) -> tuple[str, object]:
    name, sign, text = pair.partition("=")
    if not sign or not name.removesuffix(":"):
        raise ConfigError(f"{option} {escaped(pair)!r} is not name=text or name:=JSON")
    if not name.endswith(":"):
        return name, text
    name = name[:-1]
    try:
        value = json.loads(text, parse_constant=_refuse)
        _check(value)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{option} {escaped(name)}: {escaped(text[:80])!r} is not valid JSON ({error}); "
            f"text is written {escaped(name)}=text"
        ) from None
    return name, value


def _guess(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if _WHOLE.fullmatch(text) else text


def _number(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"--property {name}: {escaped(str(value))!r} is not a number") from None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not a number")


def _check(value: object) -> None:
    """Numbers must fit into 64 bits; looks into lists and objects."""
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise ValueError("numbers must fit into 64 bits")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        _check(one)
