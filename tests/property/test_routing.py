"""Routers against naive models: the same bindings, the same message, the same targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.routing import ROUTERS, HeadersRouter, Router, TopicRouter

Bound = tuple[str, tuple[tuple[str, object], ...], str]
Model = Callable[[str, Mapping[str, object], str, Mapping[str, object]], bool]


def topic_fits(pattern: list[str], words: list[str]) -> bool:
    """The definition, word by word, with all the backtracking the router avoids."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return topic_fits(pattern[1:], words) or (bool(words) and topic_fits(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_fits(pattern[1:], words[1:])


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def naive_topic(
    key: str, arguments: Mapping[str, object], routing_key: str, headers: Mapping[str, object]
) -> bool:
    return topic_fits(words_of(key), words_of(routing_key))


def naive_headers(
    key: str, arguments: Mapping[str, object], routing_key: str, headers: Mapping[str, object]
) -> bool:
    mode = str(arguments.get("x-match", "all"))
    met = [
        name in headers
        and (value is None or (type(value), value) == (type(headers[name]), headers[name]))
        for name, value in arguments.items()
        if name != "x-match" and (mode.endswith("-with-x") or not name.startswith("x-"))
    ]
    return all(met) if mode.startswith("all") else any(met)


MODELS: dict[str, Model] = {
    "direct": lambda key, arguments, routing_key, headers: key == routing_key,
    "fanout": lambda key, arguments, routing_key, headers: True,
    "topic": naive_topic,
    "headers": naive_headers,
    "x-topic": naive_topic,
}

# Few different words, so that patterns and keys meet often.
patterns = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=5).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=6).map(".".join)
values = st.sampled_from([None, 1, 2, True, "1", "a"])
headers = st.dictionaries(st.sampled_from(["a", "b", "x-a"]), values, max_size=3)
modes = st.sampled_from([{}, *({"x-match": mode} for mode in ("all", "any"))])
with_x = st.sampled_from([{"x-match": "all-with-x"}, {"x-match": "any-with-x"}])
arguments = st.builds(lambda mode, wanted: mode | wanted, modes | with_x, headers)
targets = st.sampled_from("pqr")
bindings = st.lists(st.tuples(patterns, arguments, targets), max_size=12)


@pytest.mark.parametrize("kind", ROUTERS)
@given(data=st.data())
def test_router_agrees_with_the_naive_model_through_binds_and_unbinds(
    kind: str, data: st.DataObject
) -> None:
    router: Router[str] = ROUTERS[kind]()
    bound: dict[Bound, Mapping[str, object]] = {}
    for key, given_arguments, target in data.draw(bindings):
        name = (key, tuple(sorted(given_arguments.items(), key=repr)), target)
        if name in bound:
            router.unbind(key, bound.pop(name), target)
        else:
            bound[name] = given_arguments
            router.bind(key, given_arguments, target)

    for routing_key, sent in data.draw(st.lists(st.tuples(keys, headers), max_size=5)):
        found = list(router.match(routing_key, sent))
        expected = {
            target
            for (key, _, target), rule in bound.items()
            if MODELS[kind](key, rule, routing_key, sent)
        }
        assert len(found) == len(set(found))
        assert set(found) == expected


@given(chosen=st.lists(st.tuples(patterns, targets), unique=True, max_size=12), data=st.data())
def test_a_topic_router_forgets_everything_in_any_order(
    chosen: list[tuple[str, str]], data: st.DataObject
) -> None:
    router: TopicRouter[str] = TopicRouter()
    for key, target in chosen:
        router.bind(key, {}, target)
    for key, target in data.draw(st.permutations(chosen)):
        router.unbind(key, {}, target)

    assert router._root.is_bare()


@given(chosen=st.lists(st.tuples(arguments, targets), max_size=12), data=st.data())
def test_a_headers_router_forgets_everything_in_any_order(
    chosen: list[tuple[dict[str, object], str]], data: st.DataObject
) -> None:
    router: HeadersRouter[str] = HeadersRouter()
    for wanted, target in chosen:
        router.bind("", wanted, target)
    for wanted, target in data.draw(st.permutations(chosen)):
        router.unbind("", wanted, target)

    assert router._rules == router._index == {}


def pattern_as_regex(pattern: str) -> re.Pattern[str]:
    """Another definition: every word carries its dot, so that `#` is a plain repeat."""
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    words = words_of(pattern)
    return re.compile("".join(parts.get(word, re.escape(word) + r"\.") for word in words))


@given(pattern=patterns, key=keys)
def test_topic_patterns_mean_what_their_regular_expression_means(pattern: str, key: str) -> None:
    router: TopicRouter[Any] = TopicRouter()
    router.bind(pattern, {}, "q")
    text = "".join(word + "." for word in words_of(key))

    assert bool(router.match(key, {})) is bool(pattern_as_regex(pattern).fullmatch(text))
