"""Types of settings: how a value is read from text or TOML, what is allowed, how it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class OptionType:
    """How a value is read (from text or TOML; ValueError when unfit) and what is allowed."""

    allowed: str
    read: Callable[[Any], Any]
    metavar: str
    show: Callable[[Any], str] = str


def parse_size(value: object) -> int:
    """Bytes from `1048576`, `"50MB"` (powers of 1000), `"50MiB"` or `"50M"` (powers of 1024)."""
    match = re.fullmatch(r"([0-9]+)(\.[0-9]+)?\s*(?:([kmgt])(i?b)?|b)?", _plain(value).lower())
    if match is None:
        raise ValueError(value)
    whole, fraction, prefix, suffix = match.groups()
    if fraction and not prefix:  # "0.4" means 40% elsewhere; as bytes it can only be a mistake
        raise ValueError(value)
    unit = (1000 if suffix == "b" else 1024) ** ("kmgt".index(prefix) + 1) if prefix else 1
    size = int(whole) * unit + int(float(fraction or 0) * unit)
    if size >= 2**63:
        raise ValueError(value)
    return size


def parse_amount(value: object, total: int) -> int:
    """Bytes from a size, or from a percentage of `total` such as `"40%"`."""
    text = _plain(value)
    if not text.endswith("%"):
        return parse_size(text)
    percent = _number(text[:-1])
    if not 0 < percent <= 100:
        raise ValueError(value)
    return int(total * percent / 100)


def format_size(size: int) -> str:
    """The shortest exact spelling that `parse_size` reads back."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size and size % KIB**power == 0:
            return f"{size // KIB**power}{unit}"
    return str(size)


def _plain(value: object) -> str:
    # bool is an int in Python, and `amqp_port = true` is a slip, not port 1
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(value)
    return str(value).strip()


def _number(value: object) -> float:
    text = _plain(value)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", text):  # no nan, no inf, no sign
        raise ValueError(value)
    return float(text)


def _read_whole(value: object) -> int:
    text = _plain(value)
    if not re.fullmatch(r"[0-9]{1,19}", text):
        raise ValueError(value)
    return int(text)


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _read_names(value: object) -> tuple[str, ...]:
    """Names from `"a,b"` or a list; `"none"` is no name."""
    parts = value if isinstance(value, list | tuple) else _read_text(value).split(",")
    names = tuple(_read_text(part).strip() for part in parts)
    return () if names == ("none",) else names


def _read_engines(value: object) -> tuple[tuple[str, str], ...]:
    """(name, url) pairs from `NAME=mysql://...`, several of them, or a table."""
    if isinstance(value, Mapping):
        pairs = [(name, _read_text(url)) for name, url in value.items()]
    else:
        parts = value if isinstance(value, list | tuple) else _read_text(value).split()
        pairs = [_read_engine(part) for part in parts]
    for name, url in pairs:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name) or name in _BUILT_IN_ENGINES:
            raise ValueError(value)
        scheme = url.partition("://")[0]
        registered = {one.name for one in entry_points(group="headrace.topic_engines")}
        if scheme == url or scheme not in {"mysql", "mariadb", *registered}:
            raise ValueError(value)
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(value)
    return tuple(pairs)


def _read_engine(part: object) -> tuple[str, str]:
    if isinstance(part, tuple) and len(part) == 2:
        return _read_text(part[0]), _read_text(part[1])
    name, _, url = _read_text(part).partition("=")
    return name, url


def _read_path(value: object) -> Path:
    if isinstance(value, Path):
        return value
    if "\0" in (text := _read_text(value)):
        raise ValueError(value)
    return Path(text).expanduser()


def _read_yes_no(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    try:
        return words[_plain(value).lower()]
    except KeyError:
        raise ValueError(value) from None


def _read_amount(value: object) -> str:
    parse_amount(value, total=0)
    return _plain(value)


def _fitting(read: Callable[[Any], T], fits: Callable[[T], bool]) -> Callable[[Any], T]:
    def read_fitting(value: object) -> T:
        if not fits(found := read(value)):
            raise ValueError(value)
        return found

    return read_fitting


def whole(low: int, high: int, metavar: str = "N") -> OptionType:
    read = _fitting(_read_whole, lambda number: low <= number <= high)
    return OptionType(f"a whole number from {low} to {high}", read, metavar)


def choice(*words: str) -> OptionType:
    read = _fitting(_read_text, words.__contains__)
    return OptionType(f"one of {', '.join(words)}", read, "|".join(words))


def size_up_to(largest: int) -> OptionType:
    read = _fitting(parse_size, lambda size: 1 <= size <= largest)
    return OptionType(f"a size up to {format_size(largest)}", read, "SIZE", format_size)


_BUILT_IN_ENGINES = ("log", "memory")
ENGINES = OptionType(
    "NAME=mysql://user:password@host/database, with a name of a-z, 0-9, _ and - of its own",
    _read_engines,
    "NAME=URL",
    lambda pairs: ", ".join(name for name, _ in pairs) or "none",
)
NAMES = OptionType(
    "names separated by commas, or none", _read_names, "NAMES", lambda names: ",".join(names)
)
TEXT = OptionType("text that is not empty", _read_text, "TEXT")
PATH = OptionType("a path", _read_path, "PATH", lambda path: f"./{path}")
_read_file = _fitting(_read_path, Path.is_file)
FILE = OptionType("the path of an existing file", _read_file, "FILE")
YES_NO = OptionType("true or false", _read_yes_no, "", lambda value: str(value).lower())
_read_seconds = _fitting(_number, bool)
SECONDS = OptionType("a number of seconds above 0", _read_seconds, "SECONDS", "{:g}".format)
SIZE = OptionType(
    'a number of bytes, or a size such as "50MB" or "16MiB"', parse_size, "SIZE", format_size
)


AMOUNT = OptionType(
    'a size such as "512MiB", or a share of the memory such as "40%"', _read_amount, "AMOUNT"
)
PORT = whole(0, 65535, "PORT")
