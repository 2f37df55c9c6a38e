"""Permissions: patterns over names, and the text of a refusal."""

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.permissions import Permissions, check_patterns, refusal_text


def test_each_action_has_its_own_pattern() -> None:
    some = Permissions(configure="^a$", write="^b$", read="^c$")

    assert [some.allows(action, "b") for action in ("configure", "write", "read")] == [
        False,
        True,
        False,
    ]


def test_a_pattern_matches_anywhere_in_the_name() -> None:
    some = Permissions("", "", "log")

    assert some.allows("read", "my.logs")
    assert not some.allows("read", "my.lag")


@pytest.mark.parametrize("name", ["", "q", "amq.default"])
def test_the_empty_pattern_allows_nothing(name: str) -> None:
    assert not Permissions("", "", "").allows("write", name)


def test_the_exchange_without_a_name_is_called_amq_default() -> None:
    assert Permissions("", r"^amq\.default$", "").allows("write", "")
    assert Permissions(".*", ".*", ".*").allows("write", "")
    assert not Permissions("", "^$", "").allows("write", "")


def test_the_answer_is_the_same_the_second_time() -> None:
    some = Permissions("^a", "", "")

    assert [some.allows("configure", name) for name in ("ab", "ba", "ab", "ba")] == [
        True,
        False,
        True,
        False,
    ]


def test_equal_patterns_are_equal_permissions() -> None:
    used = Permissions("a", "b", "c")
    used.allows("read", "x")

    assert used == Permissions("a", "b", "c")
    assert "_patterns" not in repr(used)


def test_a_bad_pattern_is_refused_when_it_is_set_and_allows_nothing_when_it_is_stored() -> None:
    with pytest.raises(PreconditionFailed, match="invalid pattern"):
        check_patterns(".*", "(", "")

    assert not Permissions("(", "", "").allows("configure", "(")


def test_a_pattern_that_takes_too_long_allows_nothing() -> None:
    slow = Permissions(r"(?!x)(a|aa)+$", "", "")

    assert not slow.allows("configure", "a" * 200 + "!")
    assert slow.allows("configure", "aaa")


def test_an_unknown_action_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Permissions("", "", "").allows("rule", "x")


def test_the_text_of_a_refusal() -> None:
    assert refusal_text("queue", "zz", "/", "lim") == (
        "access to queue 'zz' in vhost '/' refused for user 'lim'"
    )
    assert refusal_text("exchange", "", "v", "lim") == (
        "access to exchange 'amq.default' in vhost 'v' refused for user 'lim'"
    )
