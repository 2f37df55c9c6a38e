"""SQL conditions: compiled ones agree with a naive reading, and any text is one or an error."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SelectorError
from headrace.model.selectors import SqlSelector, TagSelector, tag_code

NAMES = ["a", "b", "price", "$c_1"]
TEXTS = ["", "5", "-7", "5.5", "1e3", "red", "TRUE", "false", "it's", "99999999999999999999"]

# A condition is a tuple; `said` writes it as SQL, `judged` says what it means.
Tree = tuple[object, ...]

names = st.sampled_from(NAMES)
numbers = st.integers(-10, 10) | st.sampled_from([5.5, 1000.0, -0.5])
texts = st.sampled_from(TEXTS)
values = st.tuples(st.just("name"), names) | st.tuples(st.just("number"), numbers)
leaves = st.one_of(
    st.tuples(st.just("equal"), values, values | st.tuples(st.just("text"), texts)),
    st.tuples(st.just("truth"), names, st.booleans()),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), values, values),
    st.tuples(st.just("null"), names),
    st.tuples(st.just("in"), names, st.lists(texts, min_size=1, max_size=3)),
    st.tuples(
        st.just("between"), names, st.tuples(numbers, numbers).map(lambda pair: sorted(pair))
    ),
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    ),
    max_leaves=8,
)
messages = st.dictionaries(names, texts, max_size=4)


def said(tree: Tree) -> str:
    kind, *rest = tree
    match kind:
        case "name":
            return str(rest[0])
        case "number":
            return repr(rest[0])
        case "text":
            return "'" + str(rest[0]).replace("'", "''") + "'"
        case "truth":
            return f"{rest[0]} = {rest[1]}"
        case "in":
            listed = ", ".join([said(("text", one)) for one in rest[1]])  # type: ignore[attr-defined]
            return f"{rest[0]} IN ({listed})"
        case "between":
            low, high = rest[1]  # type: ignore[misc]
            return f"{rest[0]} BETWEEN {low!r} AND {high!r}"
        case "not":
            return f"NOT ({said(rest[0])})"  # type: ignore[arg-type]
        case "null":
            return f"{rest[0]} IS NULL"
    left, right = said(rest[0]), said(rest[1])  # type: ignore[arg-type]
    return f"({left}) {'=' if kind == 'equal' else kind} ({right})"


class Fails(Exception):
    """The whole condition fails."""


def judged(tree: Tree, message: Mapping[str, str]) -> bool | None:
    kind, *rest = tree
    match kind:
        case "null":
            return rest[0] not in message
        case "truth":
            text = message.get(str(rest[0]))
            return None if text is None else (text.lower() == "true") is rest[1]
        case "in":
            text = message.get(str(rest[0]))
            return None if text is None else text in rest[1]  # type: ignore[operator]
        case "between":
            low, high = rest[1]  # type: ignore[misc]
            name = ("name", rest[0])
            return judged(
                ("and", (">=", name, ("number", low)), ("<=", name, ("number", high))), message
            )
        case "not":
            value = judged(rest[0], message)  # type: ignore[arg-type]
            return {True: False, False: True, None: None}[value]
        case "and" | "or":
            return both(kind, rest, message)
    return compared(str(kind), rest[0], rest[1], message)  # type: ignore[arg-type]


def both(kind: str, rest: list[object], message: Mapping[str, str]) -> bool | None:
    ends = kind == "or"  # the value that decides without the other
    left = judged(rest[0], message)  # type: ignore[arg-type]
    if left is ends:
        return ends
    right = judged(rest[1], message)  # type: ignore[arg-type]
    if right is ends:
        return ends
    return None if left is None or right is None else not ends


def compared(kind: str, left: Tree, right: Tree, message: Mapping[str, str]) -> bool | None:
    one, other = valued(left, message), valued(right, message)
    if one is None or other is None:
        # As RocketMQ: two missing values are equal, and a missing one on the right equals nothing.
        return one is other if kind == "equal" and other is None else None
    if isinstance(one, str) and isinstance(other, str):
        if kind == "equal":
            return one == other
        pair = number(one, float), number(other, float)
    else:
        pair = number(one, type(other)), number(other, type(one))
    return {
        "equal": pair[0] == pair[1],
        "<": pair[0] < pair[1],
        "<=": pair[0] <= pair[1],
        ">": pair[0] > pair[1],
        ">=": pair[0] >= pair[1],
    }[kind]


def valued(tree: Tree, message: Mapping[str, str]) -> object:
    return message.get(str(tree[1])) if tree[0] == "name" else tree[1]


def number(value: object, beside: type) -> Decimal:
    if not isinstance(value, str):
        return Decimal(value)  # type: ignore[arg-type]
    try:
        found = Decimal(value)
    except InvalidOperation:
        raise Fails from None
    if beside is int and (not value.lstrip("+-").isdigit() or abs(found) >= 1 << 63):
        raise Fails
    return found


@given(trees, messages)
def test_a_compiled_condition_agrees_with_a_naive_reading(
    tree: Tree, message: dict[str, str]
) -> None:
    try:
        wanted = judged(tree, message) is True
    except Fails:
        wanted = False

    assert SqlSelector.parse(said(tree)).matches(message) is wanted


WORDS = (
    "a b price AND OR NOT IS NULL IN BETWEEN CONTAINS STARTSWITH TRUE = <> < >= ( ) , + - "
    "'x' '' ' 5 5. .5 1e9 99999999999999999999 LIKE -- /* */ \" é"
)
words = st.sampled_from(WORDS.split(" "))


@given(st.lists(words, max_size=25).map(" ".join) | st.text(max_size=40), messages)
def test_any_text_is_a_condition_or_an_error(text: str, message: dict[str, str]) -> None:
    try:
        selector = SqlSelector.parse(text)
    except SelectorError as error:
        assert 0 <= error.column <= len(text) + 1
        return
    assert selector.matches(message) in (True, False)


@given(st.text())
def test_any_text_is_a_tag_expression_or_an_error(text: str) -> None:
    try:
        selector = TagSelector.parse(text)
    except SelectorError:
        return
    assert TagSelector.parse(selector.expression) == selector
    assert all(-(1 << 31) <= code < 1 << 31 for code in selector.codes)


@given(st.text())
def test_the_hash_of_a_tag_is_that_of_its_definition(text: str) -> None:
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    count = len(units)
    total = sum(unit * 31 ** (count - 1 - at) for at, unit in enumerate(units)) % (1 << 32)

    assert tag_code(text) % (1 << 32) == total
