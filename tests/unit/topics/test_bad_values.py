"""What programs can hand over by mistake: told at once, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import topics
from headrace.errors import BadTopicValue


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
        {"body": b"", "source_ip": 2130706433},
        {"body": b"", "properties": {"a": 1}},
        {"body": b"", "properties": {1: "a"}},
        {"body": b"", "priority": "urgent"},
        {"body": b"", "priority": None},
    ],
    ids=str,
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
        with pytest.raises(BadTopicValue, match="as a whole"):
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
