"""Routing by example: the match tables, the seen cases of RabbitMQ, counts, bounded work."""

import sys
from collections.abc import Mapping
from decimal import Decimal
from types import FrameType

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.routing import (
    ROUTERS,
    DirectRouter,
    FanoutRouter,
    HeadersRouter,
    Router,
    TopicRouter,
)
from headrace.model.routing.headers import check_arguments


def topic_matches(pattern: str, key: str) -> bool:
    router: TopicRouter[str] = TopicRouter()
    router.bind(pattern, {}, "q")
    return list(router.match(key, {})) == ["q"]


def headers_match(arguments: Mapping[str, object], headers: Mapping[str, object]) -> bool:
    router: HeadersRouter[str] = HeadersRouter()
    router.bind("", arguments, "q")
    return list(router.match("any key", headers)) == ["q"]


# -- all kinds ----------------------------------------------------------------------------------


def test_every_exchange_type_has_its_router() -> None:
    assert list(ROUTERS) == ["direct", "fanout", "topic", "headers", "x-topic"]
    by_headers = [router.by_headers for router in ROUTERS.values()]
    assert by_headers == [False, False, False, True, False]
    assert all(router.kind == kind for kind, router in ROUTERS.items())


@pytest.fixture(params=ROUTERS)
def router(request: pytest.FixtureRequest) -> Router[str]:
    return ROUTERS[request.param]()


def test_without_bindings_nothing_is_reached(router: Router[str]) -> None:
    assert list(router.match("k", {})) == []


def test_a_target_bound_twice_is_reached_once_until_both_are_gone(router: Router[str]) -> None:
    router.bind("k", {}, "q")
    router.bind("k", {"x-other": 1}, "q")
    assert list(router.match("k", {})) == ["q"]

    router.unbind("k", {}, "q")
    assert list(router.match("k", {})) == ["q"]

    router.unbind("k", {"x-other": 1}, "q")
    assert list(router.match("k", {})) == []


def test_targets_come_in_the_order_of_binding(router: Router[str]) -> None:
    for target in "cab":
        router.bind("k", {}, target)

    assert list(router.match("k", {})) == ["c", "a", "b"]


def test_an_answer_does_not_change_with_later_bindings(router: Router[str]) -> None:
    router.bind("k", {}, "a")
    before = router.match("k", {})
    router.bind("k", {}, "b")
    router.unbind("k", {}, "a")

    assert list(before) == ["a"]
    assert list(router.match("k", {})) == ["b"]


def test_unbinding_one_target_leaves_its_neighbour(router: Router[str]) -> None:
    router.bind("k", {}, "a")
    router.bind("k", {}, "b")
    router.unbind("k", {}, "b")

    assert list(router.match("k", {})) == ["a"]


# -- direct and fanout --------------------------------------------------------------------------


def test_direct_compares_the_whole_key_and_its_case() -> None:
    router: DirectRouter[str] = DirectRouter()
    router.bind("Key", {}, "q")

    assert [len(router.match(key, {})) for key in ("Key", "key", "Ke", "Key.", "")] == [
        1,
        0,
        0,
        0,
        0,
    ]


def test_fanout_ignores_the_key() -> None:
    router: FanoutRouter[str] = FanoutRouter()
    router.bind("a", {}, "q")
    router.bind("b", {}, "q")
    router.unbind("a", {}, "q")

    assert list(router.match("whatever", {})) == ["q"]


# -- topic --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("aaa", "aaa", True),
        ("aaa.bbb", "aaa.bbb", True),
        ("aaa.bbb", "aaa.bbb.ccc", False),
        ("aaa.bbb", "aaa.ccc", False),
        ("aaa.bbb.ccc", "aaa.bbb.ccc", True),
        ("aaa.*", "aaa.bbb", True),
        ("aaa.*.bbb", "aaa.bbb.ccc", False),
        ("*.aaa.bbb", "aaa.bbb", False),
        ("#", "aaa.bbb.ccc", True),
        ("aaa.#", "aaa.bbb", True),
        ("aaa.#", "aaa.bbb.ccc", True),
        ("aaa.#.ccc", "aaa.ccc", True),
        ("aaa.#.ccc", "aaa.bbb.ccc", True),
        ("aaa.#.ccc", "aaa.aaa.bbb.ccc", True),
        ("#.ccc", "ccc", True),
        ("#.ccc", "aaa.bbb.ccc", True),
    ],
)
def test_the_match_table(pattern: str, key: str, matches: bool) -> None:
    assert topic_matches(pattern, key) is matches


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("a.*.b", "a.a.b a.b.b a.aaa.b"),
        ("a.#.b", "a.a.b a.b.b a.aaa.b a.aa.bb.b a.b"),
        ("a.#", "a a.b a.b.c"),
        ("#.a", "a a.a a.b.a"),
        ("#.a.b", "a.b a.a.b a.b.a.b"),
        ("*.#", "a a.b"),
        ("#.*", "a a.b"),
        ("*.#.*", "a.b a.b.c"),
        ("#.a.#.a.#", "a.a a.x.a x.a.y.a.z"),
    ],
)
def test_what_a_pattern_matches(pattern: str, keys: str) -> None:
    assert [key for key in keys.split() if not topic_matches(pattern, key)] == []


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#", "", True),
        ("#.#", "", True),
        ("", "", True),
        ("*", "", False),
        ("a", "", False),
        ("#.*", "", False),
        ("", "a", False),
        ("", ".", False),
        ("*.*", "a.", True),
        ("*.*", ".a", True),
        ("*.*", ".", True),
        ("#", ".", True),
        ("*", ".", False),
        ("a.", "a.", True),
        ("a.", "a", False),
        ("a.*.c", "a..c", True),
        ("a..c", "a..c", True),
        ("a.#.c", "a..c", True),
        ("*.#.*", "a", False),
        ("#.a.#.a.#", "a", False),
        ("*", "*", True),
        ("*", "#", True),
        ("a", "*", False),
        ("a", "#", False),
        ("a.b", "a.*", False),
        ("a.b", "a.#", False),
        ("a*.b", "a*.b", True),
        ("a*.b", "ax.b", False),
        ("A", "a", False),
    ],
)
def test_borderline_keys(pattern: str, key: str, matches: bool) -> None:
    assert topic_matches(pattern, key) is matches


def test_a_target_of_many_matching_patterns_is_reached_once() -> None:
    router: TopicRouter[str] = TopicRouter()
    for pattern in ("a.b", "a.*", "*.b", "#", "a.#", "#.b", "#.#"):
        router.bind(pattern, {}, "q")

    assert list(router.match("a.b", {})) == ["q"]


def test_the_last_unbind_leaves_an_empty_trie() -> None:
    router: TopicRouter[str] = TopicRouter()
    patterns = ["", "a", "a.b", "a.*", "a.#", "#.a.*.#", "*.*", "#.#"]
    for pattern in patterns:
        router.bind(pattern, {}, "q")
    for pattern in patterns:
        router.unbind(pattern, {}, "q")

    assert router._root.is_bare()


def test_pruning_stops_at_what_is_still_used() -> None:
    router: TopicRouter[str] = TopicRouter()
    router.bind("a.b", {}, "short")
    router.bind("a.b.c.d", {}, "long")
    router.unbind("a.b.c.d", {}, "long")

    assert list(router.match("a.b", {})) == ["short"]
    assert not router._root.words["a"].words["b"].words


def test_unbinding_what_was_never_bound_is_a_bug() -> None:
    router: TopicRouter[str] = TopicRouter()
    with pytest.raises(KeyError):
        router.unbind("a.b", {}, "q")


class CountingKey(str):
    """A key whose words count how often they are looked up: once per visited trie node."""

    lookups = 0

    def split(self, *_: object, **__: object) -> list[str]:
        return [CountingWord(word, self) for word in str.split(self, ".")]


class CountingWord(str):
    key: CountingKey

    def __new__(cls, word: str, key: CountingKey) -> "CountingWord":
        made = super().__new__(cls, word)
        made.key = key
        return made

    def __hash__(self) -> int:
        self.key.lookups += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)


@pytest.mark.parametrize("unit", ["#", "#.a", "#.*", "*.#", "#.a.#.b", "#.#.a"])
def test_work_is_bounded_by_words_times_nodes(unit: str) -> None:
    router: TopicRouter[str] = TopicRouter()
    pattern = ".".join([unit] * 20)
    router.bind(pattern, {}, "q")
    nodes = len(pattern.split(".")) + 1

    for last in ("a", "z"):
        key = CountingKey(".".join(["a"] * 59 + [last]))
        router.match(key, {})
        assert 0 < key.lookups <= 60 * nodes


def test_matching_does_not_look_at_bindings_that_cannot_fit() -> None:
    router: TopicRouter[int] = TopicRouter()
    for number in range(1000):
        router.bind(f"stock.eu.s{number}.*", {}, number)
        router.bind(f"logs.s{number}.#", {}, number)
        router.bind(f"a.*.s{number}", {}, number)
    key = CountingKey("stock.eu.s7.buy")

    assert list(router.match(key, {})) == [7]
    assert key.lookups <= 4


# -- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({}, {}, True),
        ({}, {"a": 1}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "all-with-x"}, {}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 9, "b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 9, "b": 9}, False),
        ({"x-a": 1}, {}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"a": None}, {"a": "anything"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"x-match": "any", "a": None}, {"a": 2}, True),
        ({"x-match": "any", "a": None}, {"b": 2}, False),
        ({"a": 1}, {"a": None}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1.5}, False),
        ({"a": 1}, {"a": Decimal(1)}, False),
        ({"a": "x"}, {"a": b"x"}, True),
        ({"a": "x"}, {"A": "x"}, False),
        ({"a": [1, "b"]}, {"a": [1, "b"]}, True),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
    ],
)
def test_headers(arguments: dict[str, object], headers: dict[str, object], matches: bool) -> None:
    assert headers_match(arguments, headers) is matches


def test_headers_bindings_with_equal_rules_are_counted() -> None:
    router: HeadersRouter[str] = HeadersRouter()
    router.bind("", {"a": "x"}, "q")
    router.bind("", {"a": b"x"}, "q")
    router.unbind("", {"a": "x"}, "q")

    assert list(router.match("", {"a": "x"})) == ["q"]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_headers_bindings_that_cannot_fit_are_not_looked_at(mode: str) -> None:
    router: HeadersRouter[int] = HeadersRouter()
    for n in range(5000):
        router.bind("", {"x-match": mode, "id": n, **({"type": "a"} if mode == "all" else {})}, n)
        router.bind("", {"x-match": mode, f"only-{n}": None}, -n - 1)
    looked_at = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal looked_at
        looked_at += event == "call" and frame.f_code.co_name == "fits"

    sys.setprofile(count)
    try:
        found = router.match("", {"id": 77, "type": "a", "only-9": "x", "other": 1})
    finally:
        sys.setprofile(None)

    assert set(found) == {77, -10}
    assert looked_at <= 3


def test_x_match_has_four_values() -> None:
    for mode in ("all", "any", "all-with-x", "any-with-x"):
        check_arguments({"x-match": mode})
    check_arguments({})


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("bogus", 'value <<"bogus">>; expected all, any, all-with-x, or any-with-x'),
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (5, "type signedint (value 5); expected longstr"),
        (True, "type bool (value true); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
    ],
)
def test_another_x_match_is_refused(mode: object, told: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_arguments({"x-match": mode})

    assert str(caught.value) == f"Invalid x-match field {told}"
