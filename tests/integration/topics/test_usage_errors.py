"""Slips of a program that uses topics: refused by name, and the store stays of use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import topics
from headrace.errors import BadTopicValue, BrokerError
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.types import ConsumerSpec
from headrace.testing import run_broker


@pytest.fixture(scope="module")
def store() -> Iterator[topics.Store]:
    with run_broker() as broker:
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with topics.open(url) as store:
            store.create("orders")
            yield store


@pytest.mark.parametrize("body", [5, None, {}, [1, 2], 1.5])
def test_a_body_that_is_neither_text_nor_bytes_is_refused(
    store: topics.Store,
    body: Any,  # noqa: ANN401
) -> None:
    producer = store.producer("orders", token="shop")
    with pytest.raises(BadTopicValue, match="body must be bytes or a string"):
        producer.append(body)
    with pytest.raises(BadTopicValue, match="body must be bytes or a string"):
        producer.append_many([b"fine", body])

    assert producer.append(bytearray(b"x")) > 0


@pytest.mark.parametrize(
    "slip",
    [
        lambda store: store.create(5),
        lambda store: store.describe(None),
        lambda store: store.producer(7, token="shop"),
        lambda store: store.producer("orders", token="shop").append("x", properties={1: "a"}),
        lambda store: store.create("parcels", engine=5),
    ],
)
def test_a_slip_leaves_the_store_of_use(store: topics.Store, slip: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, BadTopicValue), match="string"):
        slip(store)

    assert store.producer("orders", token="shop").append("x") > 0


def test_a_request_the_broker_cannot_read_costs_only_itself(store: topics.Store) -> None:
    """It costs the connection and its channel; the next call has another."""
    producer = store.producer("orders", token="shop")
    with pytest.raises(BrokerError):
        store.engine.nack("orders", ConsumerSpec("c", "g"), [], [(Priority.LOW, "x")], 0)  # type: ignore[list-item]

    assert producer.append("x") > 0
    assert "orders" in [one.name for one in store.list()]


@pytest.mark.parametrize("queues", [-1, 0, 1025])
def test_a_number_of_queues_that_cannot_be_is_refused(store: topics.Store, queues: int) -> None:
    with pytest.raises(BadTopicValue, match="queues"):
        store.create("parcels", queues=queues)


def test_a_batch_larger_than_an_answer_comes_in_several(store: topics.Store) -> None:
    store.create("many")
    store.producer("many", token="p").append_many([b"x"] * 9000)
    consumer = store.consumer("many", token="c", group="g")
    sizes = []
    while batch := consumer.read(100_000):
        sizes.append(len(batch))
        consumer.commit(batch)
    assert sizes == [8192, 808]
    with pytest.raises(BadTopicValue, match="batch"):
        consumer.read(100_001)
