"""Policies: what may be set, which one counts, and patterns that are refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.policy import Policy, effective

TTL: Mapping[str, object] = {"message-ttl": 1000}


def policy(
    name: str = "p",
    pattern: str = ".*",
    *,
    apply_to: str = "all",
    priority: int = 0,
    definition: Mapping[str, object] | None = TTL,
) -> Policy:
    return Policy.checked(name, "/", pattern, apply_to, priority, definition)


# -- what may be set ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("message-ttl", 0),
        ("expires", 1),
        ("max-length", 0),
        ("max-length-bytes", 10),
        ("overflow", "reject-publish"),
        ("dead-letter-exchange", "dlx"),
        ("dead-letter-routing-key", "k"),
        ("alternate-exchange", "ae"),
        ("queue-mode", "lazy"),
        ("queue-version", 2),
        ("delivery-limit", 3),
        ("consumer-timeout", 1000),
        ("ack-timeout", 1000),
        ("ack-timeout-action", "dead-letter"),
        ("max-age", "1h"),
        ("retention", "1d"),
        ("ha-mode", "all"),
        ("ha-params", 2),
        ("federation-upstream-set", "all"),
    ],
)
def test_known_settings_are_taken(key: str, value: object) -> None:
    assert policy(definition={key: value}).definition == {key: value}


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ({"colour": "red"}, "'colour' is not a recognised policy setting"),
        ({"x-message-ttl": 5}, "'x-message-ttl' is not a recognised policy setting"),
        ({"max-priority": 5}, "'max-priority' is not a recognised policy setting"),
        ({"message-ttl": -1}, "'message-ttl': {value_negative,-1}"),
        ({"expires": 0}, "'expires': {value_zero,0}"),
        ({"max-length": "9"}, "'max-length': \"expected integer, got longstr\""),
        ({"overflow": "spill"}, "'overflow': invalid_overflow"),
        ({"dead-letter-exchange": 5}, "'dead-letter-exchange': {unacceptable_type,signedint}"),
        ({"alternate-exchange": 5}, "'alternate-exchange': expected a string, got signedint"),
        ({"ack-timeout-action": "x"}, "'ack-timeout-action': invalid_ack_timeout_action"),
    ],
)
def test_other_settings_are_refused_by_name(definition: dict[str, object], told: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        policy(definition=definition)

    assert str(caught.value) == f"invalid definition of policy 'p': {told}"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"apply_to": "topics"}, "invalid apply-to 'topics' of policy 'p'"),
        ({"priority": "1"}, "invalid priority of policy 'p': expected integer, got longstr"),
        ({"priority": True}, "invalid priority of policy 'p': expected integer, got bool"),
        ({"definition": {}}, "policy 'p' has an empty definition"),
        ({"definition": None}, "policy 'p' has an empty definition"),
        ({"pattern": "("}, r"invalid pattern '\('"),
    ],
)
def test_the_rest_of_a_policy_is_checked_too(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PreconditionFailed, match=told):
        policy(**changes)


def test_a_policy_keeps_its_own_definition() -> None:
    definition: dict[str, object] = dict(TTL)
    made = policy(definition=definition)

    definition["message-ttl"] = 1
    assert made.definition == TTL


def test_equal_policies_are_equal_and_hashable() -> None:
    assert policy() == policy()
    assert hash(policy()) == hash(policy())
    assert policy() != policy(priority=1)


# -- which one counts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("apply_to", "classic", "quorum", "exchange"),
    [
        ("all", True, True, True),
        ("queues", True, True, False),
        ("exchanges", False, False, True),
        ("classic_queues", True, False, False),
        ("quorum_queues", False, True, False),
        ("streams", False, False, False),
    ],
)
def test_apply_to(apply_to: str, classic: bool, quorum: bool, exchange: bool) -> None:
    one = policy(apply_to=apply_to)

    assert one.applies("queue", "n") is classic
    assert one.applies("queue", "n", "quorum") is quorum
    assert one.applies("exchange", "n") is exchange


def test_the_pattern_may_match_anywhere_in_the_name() -> None:
    assert effective([policy(pattern="b")], "queue", "abc") is not None
    assert effective([policy(pattern="^b")], "queue", "abc") is None


def test_the_highest_priority_counts() -> None:
    low, high = policy("a", priority=1), policy("b", priority=2)

    assert effective([low, high], "queue", "q") is high
    assert effective([high, low], "queue", "q") is high


def test_a_higher_priority_for_other_names_does_not_count() -> None:
    low, high = policy("a", "^q"), policy("b", "^x", priority=9)

    assert effective([low, high], "queue", "q") is low


def test_equal_priorities_are_decided_by_name() -> None:
    first, second = policy("a"), policy("b")

    assert effective([second, first], "queue", "q") is first
    assert effective([first, second], "queue", "q") is first


def test_no_policy_is_none() -> None:
    assert effective([], "queue", "q") is None


# -- patterns -----------------------------------------------------------------------------------


def test_a_stored_pattern_that_cannot_be_used_matches_nothing() -> None:
    with pytest.raises(PreconditionFailed, match="invalid pattern"):
        Policy.checked("p", "/", "(", "all", 0, {"max-length": 1})

    assert not Policy("p", "/", "(", definition={"max-length": 1}).applies("queue", "(")
