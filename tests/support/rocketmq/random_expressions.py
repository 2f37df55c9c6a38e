"""Random SQL92 expressions, and our verdict on them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from headrace.errors import SelectorError
from headrace.model.selectors import SqlSelector
from support.rocketmq.sql_expressions import PROPERTIES

OPERANDS = (
    *("a", "b", "color", "on", "off", "neg", "missing", "quote", "TRUE", "false", "NULL", "0"),
    *("5", "5.5", "-3", "+5", "5L", ".5", "5.", "5E1", "1e-3", "'red'", "'it''s'", "''", "'5'"),
    *("9223372036854775807", "9223372036854775808"),
)
WORDS = (
    *("(", ")", "AND", "OR", "NOT", "=", "<>", ">", "<", ">=", "<=", "BETWEEN", "IN", "IS", ","),
    *("CONTAINS", "STARTSWITH", "ENDSWITH", "+", "-", "('red','x')"),
)
SIGNS = ("=", "<>", ">", "<", ">=", "<=", "!=", "==")


def verdict(expression: str) -> str:
    """As a broker decides."""
    try:
        selector = SqlSelector.parse(expression)
    except SelectorError:
        return "refused"
    return "match" if selector.matches(PROPERTIES) else "no match"


def is_known_difference(expression: str) -> bool:
    """Text after the expression, NOT before a property in an equality, and comments."""
    if "--" in expression:
        return True
    try:
        SqlSelector.parse(expression)
    except SelectorError as error:
        return "the end of the expression" in str(error) or "NOT belongs to" in str(error)
    return False


def random_expressions(random: Random, count: int) -> Iterator[str]:
    """A third is any words, the others look like conditions."""
    for number in range(count):
        if number % 3:
            yield _condition(random, random.randint(0, 3))
        else:
            yield " ".join(random.choice(OPERANDS + WORDS) for _ in range(random.randint(1, 7)))


def _operand(random: Random, depth: int) -> str:
    if depth and random.random() < 0.2:
        return f"({_condition(random, depth - 1)})"
    return random.choice(OPERANDS)


def _condition(random: Random, depth: int) -> str:
    left, right = _operand(random, depth), _operand(random, depth)
    negated = random.choice(("", "NOT "))
    forms = [
        left,
        f"{left} {random.choice(SIGNS)} {right}",
        f"{left} {random.choice(SIGNS)} {right}",
        f"{left} {negated}BETWEEN {right} AND {_operand(random, depth)}",
        f"{left} {negated}IN ({', '.join(random.choices(OPERANDS[20:25], k=2))})",
        f"{left} IS {negated}NULL",
        f"{left} {negated}{random.choice(('CONTAINS', 'STARTSWITH', 'endswith'))} 'e'",
    ]
    if depth:
        word = random.choice(("AND", "OR", "and", "or"))
        forms.append(f"NOT {_condition(random, depth - 1)}")
        forms += [f"{_condition(random, depth - 1)} {word} {_condition(random, depth - 1)}"] * 2
    return random.choice(forms)
