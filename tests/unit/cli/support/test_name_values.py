"""`name=text` and `name:=JSON`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.support.name_values import arguments_of, headers_of, properties_of
from headrace.errors import ConfigError

NAMES = st.text(st.characters(exclude_characters="=:", categories=None), min_size=1)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(NAMES, st.text())
def test_text_stays_text(name: str, text: str) -> None:
    assert headers_of([f"{name}={text}"]) == {name: text}


@given(NAMES, VALUES)
def test_json_is_taken_as_it_is(name: str, value: object) -> None:
    pair = f"{name}:={json.dumps(value)}"
    assert headers_of([pair]) == {name: value}
    assert arguments_of([pair]) == {name: value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-5", -5),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("1.5", "1.5"),
        ("quorum", "quorum"),
        ("", ""),
        ("9" * 30, "9" * 30),
    ],
)
def test_arguments_mean_what_they_look_like(text: str, value: object) -> None:
    found = arguments_of([f"x-a={text}"])["x-a"]
    assert (found, type(found)) == (value, type(value))


def test_an_argument_may_be_a_number_as_text() -> None:
    assert arguments_of(['x-a:="10"']) == {"x-a": "10"}


def test_properties_have_their_types() -> None:
    found = properties_of(["priority=5", "content_type=a=b", "expiration=100", "type:=7"])
    assert found == {"priority": 5, "content_type": "a=b", "expiration": "100", "type": "7"}


@pytest.mark.parametrize("pair", ["", "=", ":=1", "name", "a:=", "a:=nope", "a:=Infinity"])
def test_what_cannot_be_read_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError):
        headers_of([pair])


@given(st.lists(st.text(max_size=20), max_size=3))
def test_anything_is_read_or_refused(pairs: list[str]) -> None:
    for read in (headers_of, arguments_of, properties_of):
        try:
            read(pairs)
        except ConfigError as error:
            assert str(error).startswith("--")
