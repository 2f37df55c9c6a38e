"""Declarations, deletions and bindings."""

from __future__ import annotations

from typing import Any

import pytest

from support.native_types import Connect, Namer
from support.raw_native import (
    BIND,
    EXCHANGE_DECLARE,
    EXCHANGE_DELETE,
    PUBLISH,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    UNBIND,
    Native,
    Refused,
)


def code(client: Native, *args: object, **fields: object) -> str:
    with pytest.raises(Refused) as refused:
        client.call(*args, **fields)
    assert "closed" not in refused.value.answer
    return refused.value.code


def exchange(client: Native, name: str, kind: str = "direct", **fields: object) -> str:
    client.call(EXCHANGE_DECLARE, name=name, type=kind, **fields)
    return name


# -- exchanges


def test_an_exchange_is_made_once(client: Native, name: Namer) -> None:
    own = name()

    assert client.call(EXCHANGE_DECLARE, name=own, type="fanout")["created"] is True
    assert client.call(EXCHANGE_DECLARE, name=own, type="fanout")["created"] is False
    client.call(EXCHANGE_DELETE, name=own)
    assert client.rows("exchanges", name=own) == []


def test_attributes_are_kept(client: Native, name: Namer) -> None:
    own = name()
    fields = {"durable": True, "auto_delete": True, "internal": True, "arguments": {"a": "b"}}
    exchange(client, own, "topic", **fields)

    assert client.rows("exchanges", name=own) == [{"name": own, "type": "topic", **fields}]


def test_direct_is_the_default_and_knows_queues_by_name(client: Native, name: Namer) -> None:
    own = name()
    client.call(EXCHANGE_DECLARE, name=own)

    (row,) = client.rows("exchanges", name=own)
    assert (row["type"], row["arguments"]) == ("direct", {"x-direct-to-queue": True})


def test_another_declaration_of_the_same_name_is_refused(client: Native, name: Namer) -> None:
    own = exchange(client, name(), "fanout")

    assert code(client, EXCHANGE_DECLARE, name=own, type="topic") == "precondition_failed"
    assert code(client, EXCHANGE_DECLARE, name=own, type="fanout", durable=True) == (
        "precondition_failed"
    )


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"name": ""}, "access_refused"),
        ({"name": "amq.mine"}, "access_refused"),
        ({"name": "x" * 256}, "precondition_failed"),
        ({"name": "x", "type": "round"}, "precondition_failed"),
        ({"name": "x", "arguments": {"alternate-exchange": 1}}, "precondition_failed"),
        ({"name": "x", "arguments": {"x" * 256: 1}}, "precondition_failed"),
        ({"name": "x", "arguments": {"x": 2**64 - 1}}, "precondition_failed"),
        ({"name": "x", "arguments": {"x": [[1] * 8_000] * 7}}, "precondition_failed"),
    ],
)
def test_impossible_exchanges(client: Native, fields: dict[str, Any], wanted: str) -> None:
    assert code(client, EXCHANGE_DECLARE, **fields) == wanted


def test_arguments_nested_without_end_are_refused(client: Native, name: Namer) -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]

    assert code(client, EXCHANGE_DECLARE, name=name(), arguments={"a": deep}) == (
        "precondition_failed"
    )


def test_deleting_what_is_not_there_is_not_found(client: Native, name: Namer) -> None:
    assert code(client, EXCHANGE_DELETE, name=name()) == "not_found"
    assert code(client, QUEUE_DELETE, name=name()) == "not_found"


def test_an_exchange_in_use_is_kept_when_asked(client: Native, name: Namer, queue: str) -> None:
    own = exchange(client, name())
    client.call(BIND, queue=queue, source=own, key="k")

    assert code(client, EXCHANGE_DELETE, name=own, if_unused=True) == "precondition_failed"
    client.call(EXCHANGE_DELETE, name=own)


# -- queues


def test_a_queue_reports_its_message_counts(client: Native, name: Namer) -> None:
    own = client.queue(name())
    client.publish("", own, b"x")

    answer = client.call(QUEUE_DECLARE, name=own)
    assert (answer["name"], answer["messages"], answer["consumers"]) == (own, 1, 0)
    assert client.call(QUEUE_DELETE, name=own)["messages"] == 1


def test_the_server_names_a_queue(client: Native) -> None:
    assert client.queue(exclusive=True).startswith("amq.gen-")


def test_an_exclusive_queue_belongs_to_its_connection(
    client: Native, connect: Connect, name: Namer
) -> None:
    own = client.queue(name(), exclusive=True)
    other = connect()

    assert code(other, QUEUE_DECLARE, name=own, exclusive=True) == "resource_locked"
    assert code(other, QUEUE_DELETE, name=own) == "resource_locked"
    assert client.queue(own, exclusive=True) == own
    client.close()
    fresh = connect()
    for _ in range(500):
        if not fresh.rows("queues", name=own):
            return
    raise AssertionError("the queue outlives its connection")


def test_a_queue_is_kept_when_asked(client: Native, queue: str) -> None:
    client.publish("", queue, b"x")

    assert code(client, QUEUE_DELETE, name=queue, if_empty=True) == "precondition_failed"
    assert client.call(QUEUE_DELETE, name=queue)["messages"] == 1


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"name": "amq.mine"}, "access_refused"),
        ({"name": "x" * 256}, "precondition_failed"),
        ({"name": "x", "arguments": {"x-message-ttl": "soon"}}, "precondition_failed"),
    ],
)
def test_impossible_queues(client: Native, fields: dict[str, Any], wanted: str) -> None:
    assert code(client, QUEUE_DECLARE, **fields) == wanted


# -- bindings


def test_many_keys_lead_from_one_exchange_to_one_queue(
    client: Native, name: Namer, queue: str
) -> None:
    own = exchange(client, name())
    for key in ("a", "b", "b"):
        client.call(BIND, queue=queue, source=own, key=key)
    for key in ("a", "b"):
        client.publish(own, key, key.encode())

    assert client.bodies(queue) == [b"a", b"b"]
    assert [row["key"] for row in client.rows("bindings", source=own)] == ["a", "b"]


def test_unbind_with_a_key_removes_that_one(client: Native, name: Namer, queue: str) -> None:
    own = exchange(client, name())
    for key in ("a", "b"):
        client.call(BIND, queue=queue, source=own, key=key)
    client.call(UNBIND, queue=queue, source=own, key="a")

    assert [row["key"] for row in client.rows("bindings", source=own)] == ["b"]


def test_unbind_without_a_key_removes_all_of_the_pair(
    client: Native, name: Namer, queue: str
) -> None:
    own, other = exchange(client, name()), client.queue(name())
    for key in ("", "a", "b"):
        client.call(BIND, queue=queue, source=own, key=key)
    client.call(BIND, queue=other, source=own, key="a")
    client.call(UNBIND, queue=queue, source=own)

    assert [row["destination"] for row in client.rows("bindings", source=own)] == [other]


def test_unbind_with_arguments_removes_exactly_one(client: Native, name: Namer, queue: str) -> None:
    own = exchange(client, name(), "headers")
    for value in (1, 2):
        client.call(BIND, queue=queue, source=own, arguments={"x-match": "all", "a": value})
    client.call(UNBIND, queue=queue, source=own, key="", arguments={"x-match": "all", "a": 1})

    (row,) = client.rows("bindings", source=own)
    assert row["arguments"] == {"x-match": "all", "a": 2}


def test_what_is_not_bound_cannot_be_unbound(client: Native, name: Namer, queue: str) -> None:
    own = exchange(client, name())

    assert code(client, UNBIND, queue=queue, source=own) == "not_found"
    client.call(BIND, queue=queue, source=own, key="a")
    assert code(client, UNBIND, queue=queue, source=own, key="b") == "not_found"


def test_missing_ends_are_not_found(client: Native, name: Namer, queue: str) -> None:
    own = exchange(client, name())

    assert code(client, BIND, queue=name(), source=own, key="") == "not_found"
    assert code(client, BIND, queue=queue, source=name(), key="") == "not_found"
    assert code(client, BIND, exchange=name(), source=own, key="") == "not_found"


def test_exchanges_are_bound_to_exchanges(client: Native, name: Namer, queue: str) -> None:
    first, second = exchange(client, name(), "fanout"), exchange(client, name(), "fanout")
    client.call(BIND, exchange=second, source=first)
    client.call(BIND, queue=queue, source=second)
    client.publish(first, "", b"through")

    assert client.bodies(queue) == [b"through"]
    (row,) = client.rows("bindings", source=first)
    assert (row["destination"], row["destination_type"]) == (second, "exchange")


def test_the_default_exchange_cannot_be_bound(client: Native, queue: str) -> None:
    assert code(client, BIND, queue=queue, source="", key="a") == "access_refused"


@pytest.mark.parametrize("key", ["a-b", "a*.b", "#.#", "#.*"])
def test_binding_keys_of_topic_exchanges_are_checked(client: Native, queue: str, key: str) -> None:
    assert code(client, BIND, queue=queue, source="amq.topic", key=key) == "precondition_failed"


def test_routing_keys_of_topic_exchanges_are_checked(client: Native, queue: str) -> None:
    assert code(client, PUBLISH, exchange="amq.topic", key="a-b", body=b"") == (
        "precondition_failed"
    )


def test_other_exchanges_take_any_key(client: Native, queue: str) -> None:
    client.call(BIND, queue=queue, source="amq.direct", key="a-b *")

    assert client.publish("amq.direct", "a-b *", b"x")["routed"] == 1
