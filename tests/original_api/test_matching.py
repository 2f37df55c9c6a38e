"""Scenario 21: which binding keys match which routing keys, and which keys are legal."""

from __future__ import annotations

import pytest

from headrace.client import PreconditionFailed
from support.protocol_clients import NativeClient, ProtocolClient

ROWS = [
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
]
PROSE = [
    *(("a.*.b", key, True) for key in ("a.a.b", "a.b.b", "a.aaa.b")),
    *(("a.#.b", key, True) for key in ("a.a.b", "a.b.b", "a.aaa.b", "a.aa.bb.b", "a.b")),
]
# A greedy matcher that cannot end on an empty # gets these wrong.
HARD = [
    ("a.#", "a", True),
    ("#.a", "a.a", True),
    ("#.a", "a.b.a", True),
    ("#.a.b", "a.a.b", True),
    ("*.*", "a.b", True),
    ("*.*", "a", False),
    ("", "", True),
    ("#", "", True),
    ("*", "", False),  # an empty key has no words, as in RabbitMQ
    ("", "a", False),
]


@pytest.mark.parametrize(("binding", "routing", "matches"), ROWS + PROSE + HARD)
def test_topic_matching(client: ProtocolClient, binding: str, routing: str, matches: bool) -> None:
    client.exchange("original.match", "topic")
    client.queue("original.match")
    client.bind("original.match", "original.match", binding)
    client.publish("original.match", routing, b"x")

    assert client.take_all("original.match") == ([b"x"] if matches else [])


@pytest.mark.parametrize("key", ["", "a", "a_1.B", "*", "#", "a.*.b", "*.*", "a.#", "#.a.#"])
def test_legal_binding_keys(native_client: NativeClient, key: str) -> None:
    native_client.exchange("original.keys", "topic")
    native_client.queue("original.keys")
    native_client.bind("original.keys", "original.keys", key)


@pytest.mark.parametrize("key", ["a*.b", "a.#b", "#.#", "#.*", "*.#", "a-b", "a b", "ä"])
def test_illegal_binding_keys(native_client: NativeClient, key: str) -> None:
    native_client.exchange("original.keys", "topic")
    native_client.queue("original.keys")
    with pytest.raises(PreconditionFailed):
        native_client.bind("original.keys", "original.keys", key)


@pytest.mark.parametrize("key", ["*", "#", "a.*", "a-b", "a b"])
def test_illegal_routing_keys_of_a_topic_exchange(native_client: NativeClient, key: str) -> None:
    native_client.exchange("original.keys", "topic")
    with pytest.raises(PreconditionFailed):
        native_client.publish("original.keys", key, b"x")


def test_queue_names_may_be_keys_elsewhere(native_client: NativeClient) -> None:
    native_client.queue("original keys-*")
    native_client.publish("", "original keys-*", b"x")
    assert native_client.take_all("original keys-*") == [b"x"]
