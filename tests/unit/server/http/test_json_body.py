"""Bodies in JSON: small ones at once, large ones in slices with the same result."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import HttpRefused
from headrace.server.http import json_body
from headrace.server.http.json_body import SLICE, SMALL, LargeObject, read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def read(text: str) -> dict[str, Any]:
    reader = LargeObject(text, 1000)
    for _ in reader.steps():
        pass
    return reader.found


@given(value=st.dictionaries(st.text(), VALUES), indent=st.sampled_from((None, 1)))
def test_an_object_read_entry_by_entry_is_the_same(
    value: dict[str, object], indent: int | None
) -> None:
    assert read(f" {json.dumps(value, indent=indent)}\n") == value


@given(text=st.text('{}[]",:1 a\\', max_size=20))
def test_what_is_no_object_is_refused_as_json_does(text: str) -> None:
    try:
        wanted = json.loads(text)
    except ValueError:
        wanted = None
    if isinstance(wanted, dict):
        assert read(text) == wanted
    else:
        with pytest.raises(
            ValueError, match=r"expected|Expecting|after the|[Uu]nterminated|Invalid|Extra"
        ):
            read(text)


def test_large_bodies_share_the_loop() -> None:
    entries = [{"name": f"q{n}", "arguments": {"x": n}} for n in range(40_000)]
    body = json.dumps({"queues": entries, "text": "x" * SMALL}).encode()
    assert len(body) > 2 * SMALL
    turns = [0]

    async def bystander() -> None:
        while True:
            turns.append(turns[-1] + 1)
            await asyncio.sleep(0)

    async def main() -> dict[str, Any]:
        other = asyncio.create_task(bystander())
        found = await read_object(body, entries=50_000)
        other.cancel()
        return found

    found = asyncio.run(main())

    assert found["queues"] == entries and len(found["text"]) == SMALL
    assert len(turns) > (len(body) - SMALL) // SLICE - 1


def test_an_entry_has_a_step_of_its_own() -> None:
    reader = LargeObject(json.dumps({"a": [{"n": n} for n in range(1000)]}), 1001)

    assert max(later - earlier for earlier, later in pairwise(reader.steps())) < 20


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": ' + b"[[" + b"{}," * SMALL + b"{}]]}",
        b'{"a": {"b": "' + b"x" * SMALL + b'"}}',
        b'{"a": [1' + b" " * SMALL + b"}",
        b"[" * (2 * SMALL),
        b"\xff" * (2 * SMALL),
        b'{"a": [' + b"{}," * SMALL + b"{}]}",
    ],
)
def test_large_values_inside_large_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(HttpRefused, match="not_json, or a value in it is too large"):
        asyncio.run(read_object(body, entries=1000))


def test_lists_are_not_large_unless_they_are_meant_to_be() -> None:
    body = json.dumps({"payload": ["x" * 100] * 20_000}).encode()

    assert len(asyncio.run(read_object(body, entries=20_001))["payload"]) == 20_000
    with pytest.raises(HttpRefused):
        asyncio.run(read_object(body))


def test_small_bodies_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(json_body, "LargeObject")

    assert asyncio.run(read_object(b'{"a": [[1]]}')) == {"a": [[1]]}
    assert asyncio.run(read_object(b" ")) == {}
