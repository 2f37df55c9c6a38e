"""At which line of a TOML or YAML file something stands, so that errors can point there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([\w\"'.-]+)\s*=\s*(.*)$")
_OPENS_BLOCK = re.compile(r"(?:[=:]\s*)(?:\"\"\"|'''|[|>][+-]?)\s*(?:#.*)?$")


class Lines:
    """Knows the lines of keys and tables; of the rest, the line of what holds it."""

    def __init__(self, text: str, known: dict[Path, int]) -> None:
        self._rows = text.splitlines()
        self._known = known

    def of(self, path: Path) -> int:
        """Counted from 1."""
        while path:
            if path in self._known:
                return self._known[path]
            path = path[:-1]
        return 1

    def of_text(self, path: Path) -> int:
        """Where the value begins: behind the key, or on the next line for a block of text."""
        line = self.of(path)
        row = self._rows[line - 1] if line <= len(self._rows) else ""
        return line + 1 if _OPENS_BLOCK.search(row) else line


def lines_of_toml(text: str) -> Lines:
    known: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    prefix: Path = ()
    for number, row in _outside_strings(text):
        header = _HEADER.match(row)
        if header is not None:
            path: Path = tuple(_parts(header[2]))
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
    known: dict[Path, int] = {}
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _walk(root, (), known)
    return Lines(text, known)


def _walk(node: yaml.Node, path: Path, known: dict[Path, int]) -> None:
    known.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            known[inner] = key.start_mark.line + 1
            _walk(value, inner, known)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), known)
