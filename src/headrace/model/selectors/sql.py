"""Conditions on the properties of a message, in the SQL of RocketMQ.

Properties are text. Beside a number they are read as a number of its kind; two texts have an order
only as numbers; before TRUE and FALSE they are true when they say so. What cannot be read makes
the whole condition fail. What is missing is not known, and what is not known is not chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import contains, ge, gt, le, lt
from typing import Any, TypeAlias

from headrace.model.selectors.parser import parse
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
    Value,
)

Properties: TypeAlias = Mapping[str, str]
Evaluate: TypeAlias = Callable[[Properties], Any]  # a Value; for conditions True, False or None

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}\Z").match
_REAL = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?\s*\Z", re.ASCII).match
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_TEXT_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": contains, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith,
}  # fmt: skip


class NotComparable(Exception):
    """A text that is no number where one is needed, or beside TRUE; the message is not chosen."""


@dataclass(frozen=True, slots=True)
class SqlSelector:
    """A compiled condition."""

    expression: str
    _evaluate: Evaluate = field(repr=False, compare=False)

    @classmethod
    def parse(cls, expression: str) -> SqlSelector:
        """SelectorError when it is no condition."""
        return _compiled(expression)

    def matches(self, properties: Properties) -> bool:
        """Whether the condition is true, and not merely not false."""
        try:
            return self._evaluate(properties) is True
        except NotComparable:
            return False


@lru_cache(256)
def _compiled(expression: str) -> SqlSelector:
    return SqlSelector(expression, compile_node(parse(expression)))


def compile_node(node: Node) -> Evaluate:
    """A function of the properties that gives the value of a part."""
    return _COMPILE[type(node)](node)


def _constant(node: Constant) -> Evaluate:
    value = node.value
    return lambda properties: value


def _property(node: Property) -> Evaluate:
    name = node.name
    return lambda properties: properties.get(name)


def _negative(node: Negation) -> Evaluate:
    return lambda properties: None


def _not(node: Not) -> Evaluate:
    inner = _truth(node.inner)

    def evaluate(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return evaluate


def _joined(node: And | Or) -> Evaluate:
    parts = [_truth(part) for part in node.parts]
    decisive = isinstance(node, Or)  # one part that is so decides

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = not decisive
        for part in parts:
            value: bool | None = part(properties)
            if value is decisive:
                return value
            if value is None:
                result = None
        return result

    return evaluate


def _truth(node: Node) -> Evaluate:
    """A condition; text is none, so that a bare property is never true."""
    inner = compile_node(node)
    if not isinstance(node, Property):
        return inner

    def evaluate(properties: Properties) -> bool | None:
        return None if inner(properties) is None else False

    return evaluate


def _equal(node: Equal) -> Evaluate:
    left, right = compile_node(node.left), compile_node(node.right)

    def evaluate(properties: Properties) -> bool | None:
        one, other = left(properties), right(properties)
        if type(one) is type(other):
            return bool(one == other)
        if one is None or other is None:
            return None if one is None else False  # as RocketMQ: it is not symmetrical
        if type(one) is bool and type(other) is str:
            raise NotComparable(other)
        one, other = _alike(one, other)
        return bool(type(one) is type(other) and one == other)

    return evaluate


def _order(node: Comparison) -> Evaluate:
    left, right = compile_node(node.left), compile_node(node.right)
    compare = _ORDERS[node.sign]

    def evaluate(properties: Properties) -> bool | None:
        one, other = left(properties), right(properties)
        if one is None or other is None:
            return None
        if type(one) is str and type(other) is str:
            return compare(_as_real(one), _as_real(other))
        return compare(*_alike(one, other))

    return evaluate


def _alike(one: Value, other: Value) -> tuple[Any, Any]:
    """Both as the kind of that which is no text; numbers of two kinds with a fraction."""
    if type(one) is str:
        return _read(one, other), other
    if type(other) is str:
        return one, _read(other, one)
    if type(one) in (int, float) and type(other) in (int, float):
        return float(one), float(other)  # type: ignore[arg-type]
    return one, other


def _read(text: str, beside: Value) -> Value:
    if type(beside) is bool:
        return text.lower() == "true"
    return _as_whole(text) if type(beside) is int else _as_real(text)


def _as_whole(text: str) -> int:
    if not _WHOLE(text):
        raise NotComparable(text)
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise NotComparable(text)
    return value


def _as_real(text: str) -> float:
    found = _REAL(text)
    if found is None:
        raise NotComparable(text)
    return float(found[1])


def _is_null(node: IsNull) -> Evaluate:
    inner = compile_node(node.inner)
    return lambda properties: inner(properties) is None


def _among(node: In) -> Evaluate:
    name, values = node.name, node.values

    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value in values

    return evaluate


def _part(node: TextMatch) -> Evaluate:
    inner, text, inverted = compile_node(node.inner), node.text, node.inverted
    fits = _TEXT_MATCHES[node.how]

    def evaluate(properties: Properties) -> bool:
        value = inner(properties)
        if type(value) is not str or not text:
            return False  # with NOT too
        return fits(value, text) is not inverted

    return evaluate


_COMPILE: dict[type[Any], Callable[[Any], Evaluate]] = {
    Constant: _constant,
    Property: _property,
    Negation: _negative,
    Not: _not,
    And: _joined,
    Or: _joined,
    Equal: _equal,
    Comparison: _order,
    IsNull: _is_null,
    In: _among,
    TextMatch: _part,
}
