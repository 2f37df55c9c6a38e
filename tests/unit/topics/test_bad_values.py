"""What programs can hand over by mistake: told at once, and nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace import topics
from headrace.errors import BadTopicName, BadTopicValue


@pytest.fixture
def store() -> Iterator[topics.Store]:
    with topics.open("memory:") as store:
        store.create("t")
        yield store


@pytest.mark.parametrize(
    "mistake",
    [
        {"body": 5},  # bytes(5) would be five zeros
        {"body": None},
        {"body": ["x"]},
        {"body": b"", "ref_key": 5},
        {"body": b"", "tags": b"x"},
        {"body": b"", "message_id": 5},
        {"body": b"", "source_ip": 1 << 32},
        {"body": b"", "properties": {"a": 1}},
        {"body": b"", "properties": {1: "a"}},
        {"body": b"", "properties": ["a"]},
        {"body": b"", "properties": {"a": "\ud800"}},
        {"body": "\ud800"},  # half of a pair: UTF-8 has no bytes for it
        {"body": b"", "ref_key": "a\ud800"},
        {"body": b"", "tags": "\ud800"},
        {"body": b"", "message_id": "\ud800"},
        {"body": b"", "priority": "urgent"},
        {"body": b"", "priority": None},
        {"body": b"", "priority": ["high"]},
    ],
    ids=ascii,
)
def test_what_is_no_message_is_not_appended(
    store: topics.Store, mistake: dict[str, object]
) -> None:
    producer = store.producer("t", token="p")
    with pytest.raises(BadTopicValue):
        producer.append(**mistake)  # type: ignore[arg-type]
    with pytest.raises(BadTopicValue):
        producer.append_many([b"good", topics.NewMessage(**mistake)])  # type: ignore[arg-type]
    assert sum(store.describe("t").counts.values()) == 0


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x"), "x"])
def test_bodies_are_bytes_or_text(store: topics.Store, body: bytes) -> None:
    store.producer("t", token="p").append(body)
    assert [one.body for one in store.consumer("t", token="c").read(1)] == [b"x"]


def test_only_whole_batches_are_committed(store: topics.Store) -> None:
    """A message carries the claim of its batch: the others would be gone."""
    store.producer("t", token="p").append_many([b"1", b"2"])
    consumer = store.consumer("t", token="c", group="g")
    batch = consumer.read(2)
    for wrong in (batch[0], None, [], list(batch)):
        with pytest.raises(BadTopicValue, match="the whole result"):
            consumer.commit(wrong)  # type: ignore[arg-type]
    assert consumer.lag()["middle"].claimed == 2
    consumer.commit(batch)
    assert consumer.lag()["middle"].messages == 0


@pytest.mark.parametrize(
    "mistake",
    [{"lease": 0}, {"lease": -1}, {"min_share": 51}, {"start": "now"}, {"max_attempts": 0}],
    ids=str,
)
def test_what_no_consumer_can_be(store: topics.Store, mistake: dict[str, object]) -> None:
    with pytest.raises(BadTopicValue):
        store.consumer("t", token="c", group="g", **mistake)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "slip",
    [
        lambda store: store.create("u", queues="4"),
        lambda store: store.create("u", retention=7),
        lambda store: store.create("u", retention="0s"),
        lambda store: store.create("u", retention="7d,8d"),
        lambda store: store.producer("t", token=None),
        lambda store: store.producer("t", token=b"p"),
        lambda store: store.consumer("t", token=5),
        lambda store: store.consumer("t", "c", group=5),
        lambda store: store.consumer("t", "c", lease="30"),
        lambda store: store.consumer("t", "c", lease=float("nan")),
        lambda store: store.consumer("t", "c", lease=float("inf")),
        lambda store: store.consumer("t", "c", min_share="10"),
        lambda store: store.consumer("t", "c", max_attempts="3"),
        lambda store: store.consumer("t", "c").read("5"),
        lambda store: store.consumer("t", "c").read(2.5),
        lambda store: store.consumer("t", "c").read(None),
        lambda store: store.consumer("t", "c").read(1, wait="1"),
        lambda store: store.consumer("t", "c").read(1, wait=float("nan")),
        lambda store: store.consumer("t", "c").seek("5"),
        lambda store: store.consumer("t", "c").seek({"high": "5"}),
        lambda store: store.consumer("t", "c").seek({"urgent": 5}),
        lambda store: store.consumer("t", "c").seek(time="yesterday"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_name(
    store: topics.Store, slip: Callable[[Any], object]
) -> None:
    with pytest.raises(BadTopicValue):
        slip(store)


@pytest.mark.parametrize("name", [None, 5, b"t"])
def test_a_name_that_is_no_text_is_no_name(store: topics.Store, name: Any) -> None:  # noqa: ANN401
    with pytest.raises(BadTopicName):
        store.create(name)


@pytest.mark.parametrize(
    "wrong", [{"delay": "1"}, {"delay": float("inf")}, {"delay": float("nan")}, {"reason": 5}]
)
def test_what_is_no_delay_or_reason_is_refused(
    store: topics.Store, wrong: dict[str, object]
) -> None:
    store.producer("t", token="p").append(b"x")
    consumer = store.consumer("t", token="c", group="g")
    batch = consumer.read(1)
    with pytest.raises(BadTopicValue):
        consumer.nack(batch[0], **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadTopicValue, match="a message or a batch"):
        consumer.nack([batch[0]])  # type: ignore[arg-type]
    consumer.commit(batch)


def test_a_batch_is_nacked_as_a_whole(store: topics.Store) -> None:
    store.producer("t", token="p").append_many([b"a", b"b"])
    consumer = store.consumer("t", token="c", group="g")
    consumer.nack(consumer.read(5), reason="again")
    again = consumer.read(5)
    assert [(one.body, one.attempts) for one in again] == [(b"a", 2), (b"b", 2)]
    consumer.commit(again)
    consumer.nack(consumer.read(5))  # nothing is no error
    assert consumer.lag()["middle"].messages == 0


def test_a_time_may_be_a_number_of_seconds(store: topics.Store) -> None:
    producer = store.producer("t", token="p")
    producer.append(b"old")
    time.sleep(0.01)
    now = time.time()
    producer.append(b"new")
    consumer = store.consumer("t", token="c")
    consumer.seek(time=now)
    assert [one.body for one in consumer.read(5)] == [b"new"]
