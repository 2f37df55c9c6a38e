"""Conditions in SQL: what they choose, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from headrace.errors import SelectorError
from headrace.model.selectors import SqlSelector

MESSAGE = {
    "a": "5",
    "b": "5.5",
    "color": "red",
    "on": "TRUE",
    "off": "false",
    "big": "9223372036854775807",
    "small": "-9223372036854775808",
    "quote": "it's",
    "empty": "",
    "$x_1": "x",
}

TRUE = [
    "a = 5",
    "a = 5L",
    "a = 5.0",
    "a <> 6",
    "5 = a",
    "a > 4 AND a < 6 and a >= 5 aNd a <= 5",
    "b = 5.5",
    "b = 55E-1",
    "b > .5 AND b < 6.",
    "a BETWEEN 5 AND 5",
    "b > 5.0",
    "b BETWEEN 5.0 AND 6.5",
    "a /* of course */ = 5 -- yes",
    "a NOT BETWEEN 6 AND 7",
    "a BETWEEN -1 AND +6",
    "color = 'red'",
    "color <> 'blue'",
    "color IN ('blue', 'red')",
    "color NOT IN ('blue')",
    "color IS NOT NULL",
    "missing IS NULL",
    "NOT (missing IS NOT NULL)",
    "on = TRUE",
    "off = FALSE",
    "color = false",
    "TRUE",
    "TRUE = TRUE",
    "NOT FALSE",
    "(a > 4) = TRUE",
    "on = (a > 4)",
    "a < b",
    "quote = 'it''s'",
    "big = 9223372036854775807",
    "small < -9223372036854775807",
    "color CONTAINS 'e'",
    "color STARTSWITH 're'",
    "color ENDSWITH 'ed'",
    "color NOT CONTAINS 'x'",
    "empty = ''",
    "$x_1 = 'x'",
    "missing = 1 OR a = 5",
    "a = 5 OR b = 5",  # the second would be unreadable
    "NOT (a = 6 OR FALSE)",
    "((((a = 5))))",
]
NOT_TRUE = [
    "a = 6",
    "b = 5",  # 5.5 is no whole number: the whole condition fails
    "b > 5",
    "b BETWEEN 5 AND 6.5",
    "NOT (b = 5)",
    "color CONTAINS ''",
    "color NOT CONTAINS ''",
    "b = 5 OR TRUE",
    "color > 5",
    "NOT (color > 5)",
    "color > b",
    "missing = 5",
    "missing <> 5",
    "NOT (missing = 5)",
    "missing > 5 OR missing <= 5",
    "missing IN ('x')",
    "missing NOT IN ('x')",
    "NOT (missing IN ('x'))",
    "missing CONTAINS 'x'",
    "missing NOT CONTAINS 'x'",
    "color",
    "NOT missing",
    "NULL",
    "FALSE",
    "NOT TRUE",
    "-a = -5",
    "on AND TRUE",
    "big = 5.5 AND FALSE",
    "color = TRUE",
    "color IS NULL",
    "COLOR = 'red'",  # names are told apart by their case
    "missing = 1 AND a = 5",
    "missing <> missing",
]


@pytest.mark.parametrize("expression", TRUE)
def test_chosen(expression: str) -> None:
    assert SqlSelector.parse(expression).matches(MESSAGE)


@pytest.mark.parametrize("expression", NOT_TRUE)
def test_not_chosen(expression: str) -> None:
    assert not SqlSelector.parse(expression).matches(MESSAGE)


@pytest.mark.parametrize(
    ("expression", "column", "text"),
    [
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("a >", 4, "a value is wanted, not the end"),
        ("a > 'x'", 5, "only numbers"),
        ("a >= TRUE", 6, "only numbers"),
        ("NULL < a", 1, "only numbers"),
        ("(a = 1) > 2", 1, "a condition has no order"),
        ("a = NULL", 5, "IS NULL"),
        ("NULL <> a", 1, "IS NULL"),
        ("TRUE = 5", 1, "other constants"),
        ("a BETWEEN 2 AND 1", 11, "smaller number first"),
        ("a BETWEEN 'x' AND 'y'", 11, "only numbers"),
        ("a BETWEEN 1 OR 2", 13, "'AND' is wanted, not 'OR'"),
        ("5 IN ('x')", 1, "name of a property"),
        ("a IN ()", 7, "a string"),
        ("a IN (5)", 7, "a string"),
        ("a IN ('x'", 10, "')' is wanted"),
        ("5", 1, "a condition is wanted"),
        ("'x'", 1, "a condition is wanted"),
        ("a = 1 AND 5", 11, "a condition is wanted"),
        ("5 OR a = 1", 1, "a condition is wanted"),
        ("NOT 'x'", 5, "a condition is wanted"),
        ("a LIKE 'x%'", 3, "CONTAINS"),
        ("a = 'x", 5, "no end"),
        ('a = "x"', 5, "single quotes"),
        ("a = 9223372036854775808", 5, "64 bits"),
        ("a = " + "9" * 5000, 5, "64 bits"),
        ("a = -9223372036854775809", 6, "64 bits"),
        ("a = 5 b", 7, "the end of the expression"),
        ("a + 5 = 6", 3, "the end of the expression"),
        ("a == 5", 4, "a value is wanted"),
        ("a IS 5", 6, "'NULL' is wanted"),
        ("a NOT 5", 7, "BETWEEN, IN"),
        ("a CONTAINS 5", 12, "a string"),
        ("small = -9223372036854775808", 10, "64 bits"),
        ("- a", 1, "a condition is wanted"),
        ("a = 1e400", 5, "too large"),
        ("a = 1;", 6, "no meaning"),
        ("é = 1", 1, "no meaning"),
        ("a = 1 /* no end", 7, "no meaning"),
        ("NOT a = 1", 1, "NOT (a ...)"),
    ],
)
def test_a_wrong_expression_is_reported_with_position_and_reason(
    expression: str, column: int, text: str
) -> None:
    with pytest.raises(SelectorError) as raised:
        SqlSelector.parse(expression)

    assert text in str(raised.value)
    assert raised.value.column == column


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 100 + "a = 1" + ")" * 100,
        "NOT " * 100 + "a = 1",
        "- " * 100 + "1 = 1",
        "a" + " = a" * 100,
        "a" + " > 1" * 100,
        "a IS NULL" + " IS NULL" * 100,
    ],
)
def test_a_deep_expression_is_refused(expression: str) -> None:
    with pytest.raises(SelectorError):
        SqlSelector.parse(expression)


def test_a_wide_expression_is_no_deep_one() -> None:
    wide = " OR ".join(f"a = {number}" for number in range(1000))

    assert SqlSelector.parse(wide).matches({"a": "999"})
    assert not SqlSelector.parse(wide).matches({"a": "1000"})


def test_a_very_long_expression_is_refused() -> None:
    with pytest.raises(SelectorError, match="16384 are allowed"):
        SqlSelector.parse("a = 1 OR " * 10_000 + "a = 1")
