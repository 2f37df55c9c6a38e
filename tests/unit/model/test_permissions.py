"""Permissions: patterns over names, and the text of a refusal."""

import pytest

from headrace.errors import PreconditionFailed
from headrace.model import permissions
from headrace.model.permissions import Permissions, refusal_text


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


def test_remembered_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_MAX_REMEMBERED", 10)
    some = Permissions("[02468]$", "", "")

    assert [some.allows("configure", str(n)) for n in range(100)] == [True, False] * 50
    assert len(some._answers) <= 10


def test_equal_patterns_are_equal_permissions() -> None:
    used = Permissions("a", "b", "c")
    used.allows("read", "x")

    assert used == Permissions("a", "b", "c")
    assert "_answers" not in repr(used)


def test_a_bad_pattern_is_refused_at_once() -> None:
    with pytest.raises(PreconditionFailed, match="invalid pattern"):
        Permissions("(", "", "")


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
