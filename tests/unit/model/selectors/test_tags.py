"""Tag expressions and the hash of tags."""

from __future__ import annotations

import pytest

from headrace.errors import SelectorError
from headrace.model.selectors import EVERYTHING, TagSelector, compile_selector, tag_code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("*", 42),
        ("", 0),
        ("中文", 646394),
        ("CreateOrderAndPay", 1510026627),
        ("😀", 1772899),
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_a_tag_has_the_hash_that_java_gives_it(text: str, code: int) -> None:
    assert tag_code(text) == code


@pytest.mark.parametrize("text", ["*", "", "  ", " * "])
def test_everything(text: str) -> None:
    selector = TagSelector.parse(text)

    assert selector == EVERYTHING
    assert selector.expression == "*"
    assert selector.matches({}) and selector.matches({"TAGS": "a"})
    assert selector.matches_tag(None)


def test_some_tags() -> None:
    selector = TagSelector.parse(" a ||b|| || a ")

    assert selector.tags == ("a", "b")
    assert selector.expression == "a || b"
    assert selector.codes == (97, 98)
    assert selector.matches({"TAGS": "b"})
    assert not selector.matches({"TAGS": "c"})
    assert not selector.matches({})
    assert not selector.matches_tag("")


@pytest.mark.parametrize("text", ["||", " || || "])
def test_separators_alone_are_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="names no tag"):
        TagSelector.parse(text)


def test_a_very_long_expression_is_refused() -> None:
    with pytest.raises(SelectorError, match="16384 are allowed"):
        TagSelector.parse("a || " * 10_000)


def test_the_kind_of_an_expression() -> None:
    assert compile_selector(None, "a").matches({"TAGS": "a"})
    assert compile_selector("tag", "a").matches({"TAGS": "a"})
    assert compile_selector("SQL92", "a = 1").matches({"a": "1"})
    with pytest.raises(SelectorError, match="REGEX"):
        compile_selector("REGEX", "a")
