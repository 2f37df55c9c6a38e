"""Typed values of a pipeline file; every error names file and line. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from headrace.spark.errors import BadPipeline

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
Where = tuple[str | int, ...]


class Document:
    """The file as a whole: where things stand in it, and the variables it may use."""

    def __init__(self, file: Path, lines: Lines, environ: Mapping[str, str]) -> None:
        self.file = file
        self.lines = lines
        self.environ = environ

    def fail(self, path: Where, text: str) -> NoReturn:
        raise BadPipeline(f"{self.file}:{self.lines.of(path)}: {text}")

    def filled(self, text: str, path: Where) -> str:
        """The text with ${NAME} and ${NAME:-default} replaced from the environment."""

        def value(match: re.Match[str]) -> str:
            found = self.environ.get(match[1], match[2])
            if found is None:
                self.fail(path, f"environment variable {match[1]} is not set: set it, or give a "
                                f"default as ${{{match[1]}:-...}}")  # fmt: skip
            return found

        return _VARIABLE.sub(value, text)


class TableFields:
    """One table: a key that was never read is unknown, and an error in done()."""

    def __init__(self, document: Document, path: Where, value: object) -> None:
        if not isinstance(value, dict):
            document.fail(path, f"'{_dotted(path)}' must be a table")
        self.document = document
        self.path = path
        self._table: dict[str, Any] = {str(key): one for key, one in value.items()}
        self._taken: set[str] = set()

    def fail(self, key: str | None, text: str) -> NoReturn:
        self.document.fail(self.path if key is None else (*self.path, key), text)

    def missing(self, key: str, text: str) -> NoReturn:
        """Fail; a misspelt key is named."""
        left = [one for one in self._table if one not in self._taken]
        near = difflib.get_close_matches(key, left, 1)
        if near:
            self.fail(near[0], f"unknown '{near[0]}'; did you mean '{key}'?")
        self.fail(None, f"'{key}' is missing{text}")

    @property
    def line(self) -> int:
        return self.document.lines.of(self.path)

    def take(self, key: str) -> Any:  # noqa: ANN401 - whatever the file has there
        self._taken.add(key)
        return self._table.get(key)

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self.fail(key, f"'{key}' must be a non-empty string")
        return self.document.filled(value, (*self.path, key))

    def required(self, key: str, hint: str) -> str:
        value = self.text(key)
        if value is None:
            self.missing(key, f": {hint}")
        return value

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        value = self.text(key) or default
        allowed = tuple(choices)
        if value not in allowed:
            self.fail(key, f"'{key}' is {value!r}; expected one of {', '.join(allowed)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, or one alone."""
        value = self.take(key)
        if value is None:
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            self.fail(key, f"'{key}' must be a list of strings")
        return tuple(found)

    def plain(self, key: str) -> str | None:
        """A text, number or flag, as Spark's options take them."""
        value = self.take(key)
        if value is None:
            return None
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            self.fail(key, f"'{key}' must be a string, a number, true or false")
        return self.document.filled(str(value), (*self.path, key))

    def table(self, key: str) -> TableFields | None:
        value = self.take(key)
        return None if value is None else TableFields(self.document, (*self.path, key), value)

    def named(self, key: str) -> list[tuple[str, TableFields]]:
        """A table of tables, by name."""
        found = self.table(key)
        if found is None:
            return []
        names = list(found._table)
        for name in names:
            if not _NAME.fullmatch(name):
                found.fail(name, f"'{name}' is not a valid name: use letters, digits, _ and -")
        return [(name, TableFields(self.document, (*found.path, name), found.take(name)))
                for name in names]  # fmt: skip

    def listed(self, key: str) -> list[TableFields]:
        """An array of tables."""
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(key, f"'{key}' must be a list: [[{key}]] in TOML")
        return [
            TableFields(self.document, (*self.path, key, i), one) for i, one in enumerate(value)
        ]

    def rest(self) -> dict[str, str]:
        """The keys that were not read yet, as options."""
        return {key: self.plain(key) or "" for key in self._table if key not in self._taken}

    def done(self) -> None:
        """Fail at the first key that was never read."""
        for key in self._table:
            if key not in self._taken:
                near = difflib.get_close_matches(key, self._taken, 1)
                hint = f"did you mean '{near[0]}'?" if near else "expected one of " + ", ".join(
                    sorted(self._taken))  # fmt: skip
                self.fail(key, f"unknown '{key}'; {hint}")


def _dotted(path: Where) -> str:
    return ".".join(str(part) for part in path)


_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([\w\"'.-]+)\s*=\s*(.*)$")
_OPENS_BLOCK = re.compile(r"(?:[=:]\s*)(?:\"\"\"|'''|[|>][+-]?)\s*(?:#.*)?$")


class Lines:
    """Knows the lines of keys and tables; of the rest, the line of what holds it."""

    def __init__(self, text: str, known: dict[Where, int]) -> None:
        self._rows = text.splitlines()
        self._known = known

    def of(self, path: Where) -> int:
        """Counted from 1."""
        while path:
            if path in self._known:
                return self._known[path]
            path = path[:-1]
        return 1

    def of_text(self, path: Where) -> int:
        """Where the value begins: behind the key, or on the next line for a block of text."""
        line = self.of(path)
        row = self._rows[line - 1] if line <= len(self._rows) else ""
        return line + 1 if _OPENS_BLOCK.search(row) else line


def lines_of_toml(text: str) -> Lines:
    known: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    prefix: Where = ()
    for number, row in _outside_strings(text):
        header = _HEADER.match(row)
        if header is not None:
            path: Where = tuple(_parts(header[2]))
            if header[1] == "[[":
                counts[path] = counts.get(path, -1) + 1
                path = (*path, counts[path])
            prefix = path
            known.setdefault(prefix, number)
            continue
        key = _KEY.match(row)
        if key is not None:
            known.setdefault((*prefix, *_parts(key[1])), number)
    return Lines(text, known)


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    """The lines that do not begin inside a string of several lines."""
    closing = ""
    for number, row in enumerate(text.splitlines(), 1):
        if not closing:
            yield number, row
        for mark in ('"""', "'''"):
            if closing in ("", mark) and row.count(mark) % 2:
                closing = "" if closing else mark
                break


def lines_of_yaml(text: str) -> Lines:
    known: dict[Where, int] = {}
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _walk(root, (), known)
    return Lines(text, known)


def _walk(node: yaml.Node, path: Where, known: dict[Where, int]) -> None:
    known.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            known[inner] = key.start_mark.line + 1
            _walk(value, inner, known)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), known)
