"""Messages, selectors, start positions, ids: the small pure parts."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.rocketmq import (
    ConsumeFromWhere,
    ConsumeFromWhereManager,
    InvalidMessageError,
    InvalidSelectorError,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    SelectorType,
    SubscriptionData,
    create_sql_selector,
    create_tag_selector,
    is_tag_type,
)
from headrace.rocketmq.metrics import ConsumerMetrics, LatencyHistogram, ProducerMetrics
from headrace.rocketmq.net.client_instance import MessageIds, client_id
from headrace.rocketmq.selector import tags_in
from headrace.wire.remoting.message_ids import HostAddress

# -- messages ------------------------------------------------------------------------------------


def test_what_travels_as_properties() -> None:
    message = Message(
        "T",
        b"body",
        tags="red",
        keys=["k1", "k2"],  # type: ignore[arg-type]
        properties={"colour": "red"},
        delay_level=3,
        sharding_key="s",
    )
    assert message.wire_properties() == {
        "colour": "red",
        "KEYS": "k1 k2",
        "TAGS": "red",
        "__SHARDINGKEY": "s",
        "DELAY": "3",
        "WAIT": "true",
    }


@pytest.mark.parametrize(
    "values",
    [
        {"topic": ""},
        {"topic": "a b"},
        {"topic": "x" * 128},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"body": b""},
        {"body": "text"},
        {"tags": "a\x01b"},
        {"keys": ("a b",)},
        {"keys": ("",)},
        {"properties": {"": "x"}},
        {"properties": {"x": ""}},
        {"properties": {"x": 5}},
        {"properties": {"x\x02": "y"}},
        {"properties": {"KEYS": "x"}},
        {"properties": {"x": "y" * 40_000}},
        {"delay_level": 19},
        {"delay_level": -1},
    ],
)
def test_messages_no_broker_would_take(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError):
        Message(**{"topic": "T", "body": b"x", **values})


def test_a_received_message() -> None:
    properties = {"UNIQ_KEY": "id", "TAGS": "red", "KEYS": "a b", "mine": "1", "WAIT": "true"}
    message = MessageExt("%RETRY%g", b"x", {**properties, "RETRY_TOPIC": "T"}, "b", 2, 7, 1)
    assert (message.msg_id, message.tags, message.keys) == ("id", "red", ("a", "b"))
    assert message.user_properties() == {"mine": "1"}
    assert message.get_property("mine") == "1"
    assert message.get_property("other") is None
    assert message.restore_topic("%RETRY%other").topic == "%RETRY%g"
    assert message.restore_topic("%RETRY%g").topic == "T"
    assert message.queue == MessageQueue("T", "b", 2)
    stored = MessageExt("T", b"", {}, "b", 0, 0, 1024, store_host=HostAddress("127.0.0.1", 10911))
    assert stored.msg_id == stored.offset_msg_id == "7F00000100002A9F0000000000000400"


# -- selectors -----------------------------------------------------------------------------------


def test_selectors_as_dictionaries() -> None:
    selector = MessageSelector.by_sql("colour = 'red' AND price > 100")
    assert MessageSelector.from_dict(selector.to_dict()) == selector
    assert MessageSelector.from_dict({"expression": "a"}) == MessageSelector.by_tag("a")
    assert create_tag_selector("a") == MessageSelector(SelectorType.TAG, "a")
    assert create_sql_selector("a = 1").type.value == "SQL92"
    for bad in ({}, {"type": "REGEX", "expression": "x"}, {"type": 5, "expression": "x"}, None):
        with pytest.raises(InvalidSelectorError):
            MessageSelector.from_dict(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("", True), (None, True), ("TAG", True), ("tag", True), ("SQL92", False), ("*", False)],
)
def test_is_tag_type_looks_at_the_name_of_a_type(name: str | None, expected: bool) -> None:
    assert is_tag_type(name) is expected


def test_tags_of_an_expression() -> None:
    selector = MessageSelector.by_tag(" red ||blue|| red ")
    selector.validate()
    assert selector.tags == {"red", "blue"}
    assert tags_in(" red ||blue|| red ") == ["red", "blue"]
    assert selector.accepts_tag("red")
    assert not selector.accepts_tag("green")
    assert not selector.accepts_tag(None)
    assert MessageSelector.by_tag("*").accepts_tag(None)
    assert MessageSelector.by_sql("a = 1").accepts_tag("any")


def test_tag_hashes_are_those_of_java() -> None:
    data = SubscriptionData.from_selector("T", MessageSelector.by_tag("TagA || TagB || 中文"))
    hashes = dict(zip(data.tags_set, data.code_set, strict=True))
    assert hashes == {"TagA": 2598919, "TagB": 2598920, "中文": 646394}
    assert SubscriptionData.from_dict(data.to_dict()) == data


def test_an_empty_expression_means_everything() -> None:
    assert SubscriptionData.from_selector("T", MessageSelector.by_tag("")).sub_string == "*"


# -- where to begin ------------------------------------------------------------------------------


class Bounds:
    def __init__(self) -> None:
        self.asked = 0

    def max_offset(self, queue: MessageQueue) -> int:
        return 100

    def min_offset(self, queue: MessageQueue) -> int:
        return 10

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        self.asked = timestamp
        return 50


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, 100),
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, 10),
        ("CONSUME_FROM_TIMESTAMP", 50),
    ],
)
def test_where_a_new_group_begins(where: str, offset: int) -> None:
    bounds = Bounds()
    manager = ConsumeFromWhereManager(bounds)
    assert manager.get_consume_offset(MessageQueue("T", "b", 0), where, 1234) == offset
    assert bounds.asked == (1234 if offset == 50 else 0)
    assert manager.get_consume_offset(MessageQueue("%RETRY%g", "b", 0), where) == 10


# -- ids and numbers -----------------------------------------------------------------------------


def test_client_ids() -> None:
    assert client_id() != client_id()
    assert f"@{os.getpid()}#" in client_id()
    assert client_id(broadcasting=True) == client_id(broadcasting=True)
    assert client_id("mine").endswith("@mine")


def test_message_ids_are_unique_and_look_like_those_of_java() -> None:
    one, other = MessageIds(), MessageIds()
    made = [source.next() for _ in range(1000) for source in (one, other)]
    assert len(set(made)) == 2000
    assert all(len(text) == 32 and int(text, 16) >= 0 for text in made)


@given(st.lists(st.floats(0, 100_000), min_size=1))
def test_percentiles_lie_between_nothing_and_the_highest(times: list[float]) -> None:
    latencies = LatencyHistogram()
    for one in times:
        latencies.record(one)
    assert latencies.count == len(times)
    assert 0 <= latencies.percentile(0.5) <= latencies.percentile(1.0) <= max(times)


def test_metrics_count() -> None:
    metrics = ConsumerMetrics()
    metrics.pulled(5.0, 3, 300)
    metrics.listened(2.0, 2, 1)
    metrics.add("sent_back")
    stats = metrics.snapshot()
    assert (stats.messages_pulled, stats.consumed, stats.failed, stats.sent_back) == (3, 2, 1, 1)
    assert metrics.to_dict()["consume_ms_average"] == 2.0
    with pytest.raises(KeyError):
        metrics.add("misspelt")
    producer = ProducerMetrics()
    producer.sent(4.0)
    assert producer.to_dict()["sent"] == 1


@pytest.mark.parametrize("body", [5, 0, True, None, [1, 2], "text", 5.5])
def test_a_body_is_bytes_and_nothing_that_bytes_would_take(body: object) -> None:
    with pytest.raises(InvalidMessageError, match="body"):
        Message("t", body)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_a_body_may_be_any_buffer(body: bytes) -> None:
    assert Message("t", body).body == b"x"
