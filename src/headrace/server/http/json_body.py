"""JSON objects from bodies. Large ones are read in slices, so that the event loop continues."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from headrace.server.http import replies

SMALL = 1 << 20  # bytes that are decoded at once, in up to 20 ms
SLICE = 1 << 16  # characters of a large body before others get a turn
ENTRY = 1 << 17  # characters of a value in a large body, other than a text
_BLANKS = re.compile(r"[ \t\r\n]*")
_raw_decode = json.JSONDecoder().raw_decode


def parse_object(body: bytes) -> dict[str, Any]:
    """A JSON object, or nothing at all."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise replies.bad_request("not_json") from None
    if not isinstance(value, dict):
        raise replies.bad_request("not_json")
    return value


async def read_object(body: bytes, *, entries: int = 0) -> dict[str, Any]:
    """The same in slices. In a large body only texts at the top may be large, and lists there of
    up to ``entries`` in all."""
    if len(body) <= SMALL:
        return parse_object(body)
    try:
        reader = LargeObject(body.decode(), entries)
        done = 0
        for at in reader.steps():
            if at - done > SLICE:
                done = at
                await asyncio.sleep(0)
    except (ValueError, RecursionError):
        raise replies.bad_request("not_json, or a value in it is too large") from None
    return reader.found


class LargeObject:
    """Reads an object entry by entry; ValueError where it is no JSON or an entry is large."""

    def __init__(self, text: str, entries: int) -> None:
        self.found: dict[str, Any] = {}
        self._left = entries
        self._text = text
        self._at = 0

    def steps(self) -> Iterator[int]:
        """The places up to which the text is read, one by one."""
        self._expect("{")
        for _ in self._until("}"):
            self._expect('"')
            name = self._string()
            self._expect(":")
            if self._left and self._follows("["):
                self.found[name] = entries = []
                for _ in self._until("]"):
                    entries.append(self._value())
                    self._left -= 1
                    if not self._left:
                        raise ValueError("too many entries")
                    yield self._at
            else:
                self.found[name] = self._string() if self._follows('"') else self._value()
                yield self._at
        if self._at < len(self._text.rstrip()):
            raise ValueError("text after the object")

    def _until(self, end: str) -> Iterator[None]:
        """Once before each entry, over the commas between them."""
        if not self._follows(end):
            yield
            while not self._follows(end):
                self._expect(",")
                yield

    def _string(self) -> str:
        value, self._at = scanstring(self._text, self._at, True)
        return str(value)

    def _value(self) -> object:
        self._follows("")
        for size in (1 << 12, ENTRY):  # most are short
            try:
                value, length = _raw_decode(self._text[self._at : self._at + size])
            except ValueError:
                if size == ENTRY or self._at + size >= len(self._text):
                    raise
            else:
                break
        self._at += length
        return value

    def _follows(self, text: str) -> bool:
        """Go over blanks, and over the text if it comes next."""
        found = _BLANKS.match(self._text, self._at)
        assert found is not None  # it matches the empty text
        self._at = found.end()
        follows = self._text.startswith(text, self._at)
        self._at += len(text) if follows else 0
        return follows

    def _expect(self, text: str) -> None:
        if not self._follows(text):
            raise ValueError(f"{text} expected")
