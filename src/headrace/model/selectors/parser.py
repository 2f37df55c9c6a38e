"""SQL text -> syntax, by recursive descent. The grammar is that of RocketMQ:

expression = both { OR both }            both  = equality { AND equality }
equality   = order { ("=" | "<>") order | IS [NOT] NULL }
order      = unary { ("<" | "<=" | ">" | ">=") unary | [NOT] BETWEEN unary AND unary
           | [NOT] IN "(" string { "," string } ")"
           | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string }
unary      = ("+" | "-" | NOT) unary | string | number | TRUE | FALSE | NULL | name
           | "(" expression ")"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from math import isinf
from typing import NamedTuple

from headrace.errors import SelectorError
from headrace.model.selectors.syntax_tree import (
    And,
    Comparison,
    Constant,
    Equal,
    In,
    IsNull,
    Negation,
    Node,
    Not,
    Or,
    Property,
    TextMatch,
    is_condition,
)

LENGTH_MAX = 16384  # characters of an expression
DEPTH_MAX = 64
_INT64_MAX = (1 << 63) - 1
_ORDERS = ("<", "<=", ">", ">=")
_PARTS = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(text: str) -> Node:
    """The condition; SelectorError with the column where it is wrong."""
    return _SqlParser(text).whole()


class _SqlParser:
    __slots__ = ("_depth", "_next", "_tokens")

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._next: Token = next(self._tokens)
        self._depth = 0

    def whole(self) -> Node:
        start = self._next
        if start.kind is TokenKind.END:
            raise SelectorError("empty expression: expected a condition")
        node = self._condition(self._expression(), start)
        if self._next.kind is not TokenKind.END:
            raise self._wrong("the end of the expression")
        return node

    # -- tokens --------------------------------------------------------------------------------

    def _advance(self) -> Token:
        token = self._next
        self._next = next(self._tokens)
        return token

    def _at(self, kind: TokenKind, *texts: str) -> bool:
        return self._next.kind is kind and self._next.text in texts

    def _take(self, kind: TokenKind, text: str) -> bool:
        if not self._at(kind, text):
            return False
        self._advance()
        return True

    def _need(self, kind: TokenKind, text: str) -> None:
        if not self._take(kind, text):
            raise self._wrong(f"'{text}'")

    def _string(self) -> str:
        if self._next.kind is not TokenKind.STRING:
            raise self._wrong("a string in single quotes")
        return self._advance().text

    def _wrong(self, wanted: str) -> SelectorError:
        found = self._next
        if found.kind is TokenKind.NAME and found.text.upper() == "LIKE":
            return SelectorError(
                "LIKE is not known; use CONTAINS, STARTSWITH or ENDSWITH", found.column
            )
        shown = "the end" if found.kind is TokenKind.END else f"'{found.text:.32}'"
        return SelectorError(f"{wanted} is wanted, not {shown}", found.column)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SelectorError(
                f"the expression is nested more than {DEPTH_MAX} times", self._next.column
            )

    # -- levels of the grammar -----------------------------------------------------------------

    def _expression(self) -> Node:
        return self._joined("OR", self._both, Or)

    def _both(self) -> Node:
        return self._joined("AND", self._equality, And)

    def _joined(self, word: str, part: Callable[[], Node], kind: type[And | Or]) -> Node:
        start = self._next
        first = part()
        if not self._at(TokenKind.WORD, word):
            return first
        parts = [self._condition(first, start)]
        while self._take(TokenKind.WORD, word):
            start = self._next
            parts.append(self._condition(part(), start))
        return kind(tuple(parts))

    def _equality(self) -> Node:
        start, depth = self._next, self._depth
        left = self._order()
        while True:
            if self._at(TokenKind.SIGN, "=", "<>"):
                sign = self._advance().text
                begin = self._next
                right = self._order()
                left = self._equal(left, right, start, begin)
                left = left if sign == "=" else Not(left)
            elif self._take(TokenKind.WORD, "IS"):
                inverted = self._take(TokenKind.WORD, "NOT")
                self._need(TokenKind.WORD, "NULL")
                left = Not(IsNull(left)) if inverted else IsNull(left)
            else:
                self._depth = depth
                return left
            self._deeper()  # a chain is as deep as it is long

    def _order(self) -> Node:
        start, depth = self._next, self._depth
        left = self._unary()
        while True:
            if self._at(TokenKind.SIGN, *_ORDERS):
                sign = self._advance().text
                begin = self._next
                right = self._unary()
                left = Comparison(sign, _ordered(left, start), _ordered(right, begin))
            elif self._at(TokenKind.WORD, "NOT", "BETWEEN", "IN", *_PARTS):
                left = self._relation(left, start)
            else:
                self._depth = depth
                return left
            self._deeper()

    def _relation(self, left: Node, start: Token) -> Node:
        inverted = self._take(TokenKind.WORD, "NOT")
        if self._take(TokenKind.WORD, "BETWEEN"):
            return self._between(left, start, inverted)
        if self._take(TokenKind.WORD, "IN"):
            among = self._among(left, start)
            return Not(among) if inverted else among
        if self._at(TokenKind.WORD, *_PARTS):
            how = self._advance().text
            return TextMatch(how, left, self._string(), inverted)
        raise self._wrong("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")

    def _between(self, value: Node, start: Token, inverted: bool) -> Node:
        begin = self._next
        low = _ordered(self._unary(), begin)
        self._need(TokenKind.WORD, "AND")
        end = self._next
        high = _ordered(self._unary(), end)
        value = _ordered(value, start)
        if inverted:
            return Or((Comparison("<", value, low), Comparison(">", value, high)))
        if _reversed(low, high):
            raise SelectorError("BETWEEN expects the smaller number first", begin.column)
        return And((Comparison(">=", value, low), Comparison("<=", value, high)))

    def _among(self, left: Node, start: Token) -> Node:
        if not isinstance(left, Property):
            raise SelectorError("IN needs the name of a property before it", start.column)
        self._need(TokenKind.SIGN, "(")
        values = [self._string()]
        while self._take(TokenKind.SIGN, ","):
            values.append(self._string())
        self._need(TokenKind.SIGN, ")")
        return In(left.name, frozenset(values))

    def _unary(self) -> Node:
        depth = self._depth
        self._deeper()
        try:
            if self._take(TokenKind.SIGN, "+"):
                return self._unary()
            if self._take(TokenKind.SIGN, "-"):
                return self._negative()
            if self._take(TokenKind.WORD, "NOT"):
                start = self._next
                return Not(self._condition(self._unary(), start))
            return self._primary()
        finally:
            self._depth = depth

    def _negative(self) -> Node:
        inner = self._unary()
        if isinstance(inner, Constant) and type(inner.value) in (int, float):
            return Constant(-inner.value)  # type: ignore[operator]
        return Negation(inner)

    def _primary(self) -> Node:
        token = self._next
        if token.kind is TokenKind.NAME and token.text.upper() != "LIKE":
            return Property(self._advance().text)
        if token.kind is TokenKind.STRING:
            return Constant(self._advance().text)
        if token.kind is TokenKind.INTEGER:
            return Constant(self._integer())
        if token.kind is TokenKind.REAL:
            return Constant(self._real())
        if token.kind is TokenKind.WORD and token.text in _CONSTANTS:
            return Constant(_CONSTANTS[self._advance().text])
        if self._take(TokenKind.SIGN, "("):
            inner = self._expression()
            self._need(TokenKind.SIGN, ")")
            return inner
        raise self._wrong("a value")

    def _integer(self) -> int:
        token = self._advance()
        if len(token.text) > 19 or int(token.text) > _INT64_MAX:
            raise SelectorError("a whole number has at most 64 bits", token.column)
        return int(token.text)

    def _real(self) -> float:
        token = self._advance()
        value = float(token.text)
        if isinf(value):
            raise SelectorError(f"{token.text:.32} is too large for a number", token.column)
        return value

    # -- checks --------------------------------------------------------------------------------

    def _condition(self, node: Node, start: Token) -> Node:
        """A bare property is no error, only never true: its value is text."""
        if is_condition(node) or isinstance(node, Property):
            return node
        raise SelectorError("a condition is wanted, not a value", start.column)

    def _equal(self, left: Node, right: Node, start: Token, begin: Token) -> Equal:
        for node, token in ((left, start), (right, begin)):
            if isinstance(node, Constant) and node.value is None:
                raise SelectorError(
                    "nothing equals NULL; write IS NULL or IS NOT NULL", token.column
                )
        if isinstance(left, Not) and isinstance(left.inner, Property):
            name = f"{left.inner.name:.32}"
            raise SelectorError(
                f"NOT belongs to '{name}' alone; write NOT ({name} ...)", start.column
            )
        if _truth_before_other(left, right):
            raise SelectorError(
                "TRUE and FALSE cannot be compared with other constants", start.column
            )
        return Equal(left, right)


def _ordered(node: Node, token: Token) -> Node:
    """Only numbers have an order, and properties which look like numbers."""
    if isinstance(node, Constant) and type(node.value) not in (int, float):
        raise SelectorError("only numbers can be compared with < <= > >= BETWEEN", token.column)
    if is_condition(node):
        raise SelectorError("a condition has no order: < <= > >= need numbers", token.column)
    return node


def _reversed(low: Node, high: Node) -> bool:
    """Of numbers with a minus, RocketMQ does not ask."""
    if not (isinstance(low, Constant) and isinstance(high, Constant)):
        return False
    return low.value > high.value >= 0  # type: ignore[operator]  # both are numbers


def _truth_before_other(left: Node, right: Node) -> bool:
    if not (isinstance(left, Constant) and isinstance(right, Constant)):
        return False
    value = right.value
    if isinstance(value, int | float) and value < 0:  # as in _reversed
        return False
    return isinstance(left.value, bool) and not isinstance(value, bool)


# -- tokens --------------------------------------------------------------------------------------


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


KEYWORDS = frozenset(("AND", "BETWEEN", "IN", "IS", "NOT", "OR", *_PARTS, *_CONSTANTS))
_PATTERN = re.compile(
    r"""
    (?P<blank>\s+ | --[^\r\n]* | /\*(?:[^*]|\*(?!/))*\*/)
    | (?P<real>\d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<integer>0|[1-9]\d*)[lL]?
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
