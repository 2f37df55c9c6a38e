"""JSON of the HTTP API: every value that a client can have declared has a form."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

import pytest

from headrace.server.http.replies import encode


class Pair(NamedTuple):
    first: int
    second: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"text", "text"),
        (b"\xff", "/w=="),
        (Decimal("1.5"), 1.5),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Pair(1, 2), [1, 2]),
        (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02 00:00:00+00:00"),
        (1 << 70, 1 << 70),
        ("not UTF-8: \udcff", "not UTF-8: \udcff"),
        ("für", "für"),
    ],
)
def test_values_without_a_form_in_json_are_shown_as_text(value: object, shown: object) -> None:
    assert json.loads(encode({"key": [value]})) == {"key": [shown]}


def test_keys_keep_their_order_and_nothing_is_padded() -> None:
    assert encode({"b": 1, "a": [True, None]}) == b'{"b":1,"a":[true,null]}'
