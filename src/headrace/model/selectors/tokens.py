"""SQL text -> tokens, each with its column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from headrace.errors import SelectorError

LENGTH_MAX = 16384


class TokenKind(Enum):
    """What a token is."""

    WORD = auto()  # a keyword; its text is in capitals
    NAME = auto()  # of a property
    STRING = auto()
    INTEGER = auto()
    REAL = auto()
    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """A piece of the text. Columns begin with 1, as people count."""

    kind: TokenKind
    text: str
    column: int


KEYWORDS = frozenset(
    {
        "AND",
        "BETWEEN",
        "CONTAINS",
        "ENDSWITH",
        "FALSE",
        "IN",
        "IS",
        "NOT",
        "NULL",
        "OR",
        "STARTSWITH",
        "TRUE",
    }
)
_PATTERN = re.compile(
    r"""
    (?P<blank>\s+ | --[^\r\n]* | /\*(?:[^*]|\*(?!/))*\*/)
    | (?P<real>\d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<integer>\d+)[lL]?
    | (?P<name>[a-zA-Z_$][a-zA-Z0-9_$]*)
    | '(?P<string>(?:[^']|'')*)'
    | (?P<sign><>|<=|>=|[=<>(),+-])
    """,
    re.VERBOSE | re.ASCII,
).match


def tokens(text: str) -> Iterator[Token]:
    """The tokens and an end; SelectorError at the first character that begins none."""
    if len(text) > LENGTH_MAX:
        raise SelectorError(f"an expression of {len(text)} characters; {LENGTH_MAX} are allowed")
    place = 0
    while place < len(text):
        found = _PATTERN(text, place)
        if found is None:
            raise _stray(text, place)
        if found.lastgroup != "blank":
            yield _token(found)
        place = found.end()
    yield Token(TokenKind.END, "", len(text) + 1)


def _token(found: re.Match[str]) -> Token:
    kind = found.lastgroup or ""
    text, column = found[kind], found.start() + 1
    if kind == "name":
        word = text.upper()
        return (
            Token(TokenKind.WORD, word, column)
            if word in KEYWORDS
            else Token(TokenKind.NAME, text, column)
        )
    if kind == "string":
        return Token(TokenKind.STRING, text.replace("''", "'"), column)
    return Token(TokenKind[kind.upper()], text, column)


def _stray(text: str, place: int) -> SelectorError:
    if text[place] == "'":
        return SelectorError("a string has no end; write '' for a quote inside it", place + 1)
    if text[place] == '"':
        return SelectorError("strings are written in single quotes", place + 1)
    return SelectorError(f"{text[place]!r} has no meaning here", place + 1)
