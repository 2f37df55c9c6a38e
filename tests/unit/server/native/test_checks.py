"""Which keys a topic exchange takes."""

from __future__ import annotations

import pytest

from headrace.errors import PreconditionFailed
from headrace.server.native.checks import check_binding_key, check_routing_key


@pytest.mark.parametrize("key", ["", "a", "a.b", "A_9.x", "a..b", "."])
def test_routing_keys(key: str) -> None:
    check_routing_key(key)
    check_binding_key(key)


@pytest.mark.parametrize("key", ["a-b", "a b", "*", "a.#", "\u00e9", "a\n", "a/b"])
def test_bad_routing_keys(key: str) -> None:
    with pytest.raises(PreconditionFailed, match="routing key"):
        check_routing_key(key)


@pytest.mark.parametrize("key", ["*", "#", "*.*", "a.*.b", "a.#.b", "#.a.#", "*.a.#", "*.*.a"])
def test_binding_keys(key: str) -> None:
    check_binding_key(key)


@pytest.mark.parametrize("key", ["a*.b", "##", "#.#", "a.#.*", "*.#", "#.*.a", "a-b", "**", "a.b#"])
def test_bad_binding_keys(key: str) -> None:
    with pytest.raises(PreconditionFailed, match="binding key"):
        check_binding_key(key)
