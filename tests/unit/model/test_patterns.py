"""Patterns of users: what is accepted, how it matches, and how much work it may cause."""

from __future__ import annotations

import logging

import pytest

from headrace.errors import PreconditionFailed
from headrace.model import patterns
from headrace.model.patterns import MAX_PATTERN, Pattern, compile_pattern, stored_pattern

ENDLESS = r"(?!x)(a|aa)+$"  # on many `a` and a last other letter


@pytest.mark.parametrize(
    ("text", "fits", "fails"),
    [
        ("", "anything", None),
        ("log", "my.logs", "lo"),
        (r"^amq\.", "amq.direct", "amqp"),
        (r"^(orders|stock)\..*$", "stock.1", "my.stock.1"),
        (r"^(?!amq\.).*", "orders", "amq.direct"),
        (r"(?<=a)b", "ab", "b"),
        (r"(?P<n>a)(?P=n)+", "aa", "a"),
        (r"(?P<n>a)?(?(n)b|c)", "c", "d"),
        (r"a++b", "aab", "a"),
        (r"^end\Z", "end", "ends"),
        (r"(?x) a b", "ab", "a b"),
        (r"(?#comment)b+", "b", "comment"),
        (r"[[:digit:]]+", "a1", "ab"),
        (r"^\p{L}+$", "é", "1"),
        (r"(?i)ABC", "abc", "abd"),
        (r"^a{2,3}$", "aaa", "aaaa"),
        (r"^(a+)+$", "a" * 200, "a" * 200 + "b"),
        (r"^.*.*.*.*.*x$", "x", "a" * 255),
        ("^" + "a?" * 45 + "a" * 45 + "$", "a" * 45, "a" * 91),
        (r"^.*$", "\udcff", None),
    ],
)
def test_patterns_match_as_perl_and_python_do(text: str, fits: str, fails: str | None) -> None:
    pattern = compile_pattern(text)

    assert pattern.matches(fits)
    assert fails is None or not pattern.matches(fails)


@pytest.mark.parametrize("text", ["(", "a**", "*", "[b-a]", "\ud800[", "(" * 512 + ")" * 511])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="invalid pattern"):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        r"(a{1000}){1000}",
        r"(?!x)(a{300}){300}",
        r"(?!x)((a{1,90}){90}){2,}",
        r"(?!x)" + "(?:" * 30 + "a" + "){1,2}" * 30,
        r"(?x)(?!x)" + "(?:" * 30 + "a" + "){ 2 }" * 30,
        r"\p{L}+" * 100,
        r"(?:.?){900}x",
    ],
)
def test_patterns_that_need_much_memory_are_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match=r"too large|invalid pattern"):
        compile_pattern(text)


def test_a_pattern_has_a_limited_length() -> None:
    compile_pattern("a" * MAX_PATTERN)
    with pytest.raises(PreconditionFailed, match="1025 characters, at most 1024"):
        compile_pattern("a" * (MAX_PATTERN + 1))


def test_upper_and_lower_case_can_be_the_same() -> None:
    for text in ("^orders", "^(?!amq)orders"):
        assert compile_pattern(text, ignore_case=True).matches("Orders")
        assert not compile_pattern(text).matches("Orders")


def test_a_match_that_takes_too_long_is_none_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pattern = compile_pattern(ENDLESS)
    with caplog.at_level(logging.WARNING):
        assert [pattern.matches("a" * 200 + str(n)) for n in range(5)] == [False] * 5

    assert [record.getMessage().split(" for the name")[0] for record in caplog.records] == [
        f"pattern {ENDLESS!r} takes too long"
    ]
    assert pattern.matches("aaa")


def test_a_pattern_that_is_always_slow_is_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[str] = []

    def search(name: str) -> object:
        tried.append(name)
        if name == "fast":
            return name
        raise TimeoutError

    pattern = Pattern("slow", search)
    assert pattern.matches("fast")
    assert not any(pattern.matches(f"a{n}") for n in range(1000))

    assert len(tried) == 1 + 2 * patterns.MAX_TIMEOUTS
    assert pattern.matches("fast")  # known before
    assert "it is off until it is set again" in caplog.records[-1].getMessage()


def test_answers_are_remembered_but_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_ANSWERS", 10)
    tried: list[str] = []
    pattern = Pattern("x", lambda name: tried.append(name))

    assert [pattern.matches("same") for _ in range(100)] == [False] * 100
    assert tried == ["same"]
    for n in range(100):
        pattern.matches(str(n))
    assert len(pattern._answers) <= 10


def test_a_stored_pattern_is_never_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert not stored_pattern("(").matches("(")
    assert "a stored pattern matches nothing: invalid pattern '('" in caplog.text
