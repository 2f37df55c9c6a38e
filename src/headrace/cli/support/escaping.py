"""Text from elsewhere on a terminal: nothing that moves the cursor, breaks a line, runs backwards.

The escapes are those of Python and JSON, and a backslash is doubled, so that two names which differ
are shown differently.
"""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, marks that turn the direction of writing, what
# has no width, and halves of surrogate pairs, which no encoding takes.
_UNSAFE = "\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
_TO_ESCAPE = re.compile(rf"[\\{_UNSAFE}]")
_IN_JSON = re.compile(r"[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escaped(text: str) -> str:
    """The text on one line, harmless and unambiguous."""
    return _TO_ESCAPE.sub(_escape, text)


def escaped_body(body: bytes) -> str:
    """The same for bytes: UTF-8 as text, everything else as `\\xff`."""
    if b"\\" not in body:
        text = body.decode("utf-8", "backslashreplace")
        return _TO_ESCAPE.sub(_escape_but_backslash, text)
    doubled = body.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return _TO_ESCAPE.sub(_escape_but_backslash, doubled)


def json_safe(document: str) -> str:
    """A JSON text without the characters that JSON itself leaves as they are."""
    if document.isascii() and "\x7f" not in document:
        return document  # as most are; looking is cheap
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _escape_but_backslash(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\\" else _escape(match)
