"""Scenarios 1 to 7, 14 to 16 and 20: what is declared is remembered, with all attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.client import HeadraceError, NotFound
from support.protocol_clients import NativeClient
from support.restartable_broker import Restartable

ARGUMENTS = {"aaa": 111, "bbb": 222}


@contextmanager
def doorway(site: Restartable) -> Iterator[NativeClient]:
    client = NativeClient({"native": site.port})
    yield client
    client.close()


def own(client: NativeClient, kind: str) -> list[dict[str, Any]]:
    """What was declared by somebody: AMQP's standard exchanges are always there."""
    return [row for row in client.rows(kind) if not str(row.get("name", "")).startswith("amq.")]


def explicit(client: NativeClient) -> list[dict[str, Any]]:
    """Bindings without those of the default exchange, which every queue has."""
    return [row for row in client.rows("bindings") if row["source"]]


def test_1_a_new_broker_has_the_default_exchange_and_nothing_else(
    restartable: Restartable,
) -> None:
    with doorway(restartable) as client:
        (exchange,) = own(client, "exchanges")
        assert (exchange["name"], exchange["type"]) == ("", "direct")
        assert own(client, "queues") == []
        assert explicit(client) == []


def test_2_3_14_an_exchange_with_all_attributes_comes_and_goes(restartable: Restartable) -> None:
    with doorway(restartable) as client:
        client.declare_exchange(
            "testExchange", "fanout", durable=True, auto_delete=True, arguments=ARGUMENTS
        )
        assert len(own(client, "exchanges")) == 2
    restartable.restart()

    with doorway(restartable) as client:
        (found,) = [row for row in own(client, "exchanges") if row["name"]]
        assert found["name"] == "testExchange"
        assert found["type"] == "fanout"
        assert (found["durable"], found["auto_delete"]) == (True, True)
        assert found["arguments"] == ARGUMENTS
        client.drop_exchange("testExchange")
        assert [row["name"] for row in own(client, "exchanges")] == [""]
        with pytest.raises(NotFound):
            client.drop_exchange("testExchange")
    restartable.restart()

    with doorway(restartable) as client:
        assert [row["name"] for row in own(client, "exchanges")] == [""]


def test_4_5_15_a_queue_with_all_attributes_comes_and_goes(restartable: Restartable) -> None:
    with doorway(restartable) as client:
        client.declare_queue("shared", durable=True, auto_delete=True, arguments=ARGUMENTS)
        client.declare_queue("own", durable=True, exclusive=True, arguments=ARGUMENTS)
        found = {row["name"]: row for row in own(client, "queues")}
        assert found["own"]["exclusive"] is True
    restartable.restart()

    with doorway(restartable) as client:  # an exclusive queue ends with its connection
        (row,) = own(client, "queues")
        assert (row["name"], row["durable"], row["auto_delete"]) == ("shared", True, True)
        assert (row["exclusive"], row["arguments"]) == (False, ARGUMENTS)
        client.drop_queue("shared")
        assert own(client, "queues") == []
        with pytest.raises(NotFound):
            client.drop_queue("shared")


def test_6_7_16_a_binding_comes_and_goes(restartable: Restartable) -> None:
    with doorway(restartable) as client:
        client.declare_exchange("testExchange", "direct", durable=True)
        client.declare_queue("testQueue", durable=True)
        client.bind("testQueue", "testExchange", "testBindingKey")
    restartable.restart()

    with doorway(restartable) as client:
        (row,) = explicit(client)
        assert row["source"] == "testExchange"
        assert (row["destination"], row["destination_type"]) == ("testQueue", "queue")
        assert row["key"] == "testBindingKey"
        client.unbind("testQueue", "testExchange", "testBindingKey")
        assert explicit(client) == []
        with pytest.raises(NotFound):
            client.unbind("testQueue", "testExchange", "testBindingKey")


def test_deleting_either_end_takes_the_bindings_with_it(restartable: Restartable) -> None:
    with doorway(restartable) as client:
        for name in ("one", "two"):
            client.declare_exchange(name, "fanout", durable=True)
            client.declare_queue(name, durable=True)
            client.bind(name, name, "")
        client.drop_queue("one")
        client.drop_exchange("two")
        assert explicit(client) == []


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_20_after_a_restart_everything_is_there_again(restartable: Restartable, end: str) -> None:
    with doorway(restartable) as client:
        client.declare_exchange("testExchange", "topic", durable=True, arguments=ARGUMENTS)
        client.declare_queue("testQueue", durable=True, arguments=ARGUMENTS)
        client.bind("testQueue", "testExchange", "test.#")
        properties = {"delivery_mode": 2, "message_id": "mine", "headers": {"n": 1}}
        client.channel.basic_publish("testExchange", "test.key", properties, b"hello")
    getattr(restartable, end)()

    with doorway(restartable) as client:
        delivery = client.channel.basic_get("testQueue", auto_ack=True)
        assert delivery is not None
        got = delivery.properties
        assert (got.message_id, got.routing_key, got.delivery_mode) == ("mine", "test.key", 2)
        assert (got.headers, delivery.body) == ({"n": 1}, b"hello")
        client.declare_exchange("testExchange", "topic", durable=True, arguments=ARGUMENTS)
        client.declare_queue("testQueue", durable=True, arguments=ARGUMENTS)
        assert [row["key"] for row in explicit(client)] == ["test.#"]
        with pytest.raises(HeadraceError):
            client.declare_exchange("testExchange", "fanout", durable=True, arguments=ARGUMENTS)
