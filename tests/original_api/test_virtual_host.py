"""Scenarios 22 to 33: declaring, binding, publishing, subscribing, through both protocols."""

from __future__ import annotations

import queue

import pytest

from headrace.client import BasicProperties, HeadraceError, NotFound
from support.protocol_clients import Door, Got, NativeDoor


def test_22_declare_an_exchange(door: Door) -> None:
    door.exchange("testExchange", "direct", durable=True)
    door.declare_exchange("testExchange", "direct", durable=True)


def test_23_declare_and_delete_an_exchange(door: Door) -> None:
    door.exchange("testExchange", "direct", durable=True)
    door.delete_exchange("testExchange")


def test_24_declare_a_queue(door: Door) -> None:
    door.queue("testQueue", durable=True)
    door.declare_queue("testQueue", durable=True)


def test_25_declare_and_delete_a_queue(door: Door) -> None:
    door.queue("testQueue", durable=True)
    door.delete_queue("testQueue")


def test_26_bind(door: Door) -> None:
    door.queue("testQueue", durable=True)
    door.exchange("testExchange", "direct", durable=True)
    door.bind("testQueue", "testExchange", "testBindingKey")
    door.bind("testQueue", "testExchange", "testBindingKey")
    door.bind("testQueue", "testExchange", "another")
    door.publish("testExchange", "testBindingKey", b"x")

    assert door.take_all("testQueue") == [b"x"]


def test_27_unbind_without_a_key(native_door: NativeDoor) -> None:
    native_door.queue("testQueue", durable=True)
    native_door.exchange("testExchange", "direct", durable=True)
    for key in ("testBindingKey", "another"):
        native_door.bind("testQueue", "testExchange", key)
    native_door.channel.queue_unbind("testQueue", "testExchange")

    assert [row for row in native_door.rows("bindings") if row["source"]] == []
    with pytest.raises(NotFound):
        native_door.channel.queue_unbind("testQueue", "testExchange")


@pytest.mark.parametrize(("end", "name"), [("queue", "testExchange"), ("exchange", "testQueue")])
def test_binding_what_is_not_there_is_an_error(
    native_door: NativeDoor, end: str, name: str
) -> None:
    if end == "queue":
        native_door.exchange("testExchange", "direct")
    else:
        native_door.queue("testQueue")
    with pytest.raises(NotFound):
        native_door.bind("testQueue", "testExchange", "k")


def test_28_publish_directly(native_door: NativeDoor) -> None:
    native_door.queue("testQueue", durable=True)
    native_door.exchange("testExchange", "direct", durable=True)
    assert native_door.channel.basic_publish("testExchange", "testQueue", None, b"hello") == 1


def test_28_publishing_an_unroutable_message_is_an_error(native_door: NativeDoor) -> None:
    native_door.exchange("testExchange", "direct", durable=True)
    with pytest.raises(NotFound):
        native_door.channel.basic_publish("testExchange", "noQueue", None, b"hello")
    with pytest.raises(NotFound):
        native_door.channel.basic_publish(None, "noQueue", None, b"hello")
    with pytest.raises(NotFound):
        native_door.channel.basic_publish("noExchange", "noQueue", None, b"hello")


def test_by_name_and_by_binding_is_one_copy(door: Door) -> None:
    door.queue("testQueue")
    door.exchange("testExchange", "direct")
    door.bind("testQueue", "testExchange", "testQueue")
    door.publish("testExchange", "testQueue", b"once")

    assert door.take_all("testQueue") == [b"once"]


def test_29_subscribe_then_publish(door: Door) -> None:
    door.queue("testQueue", durable=True)
    door.exchange("testExchange", "direct", durable=True)
    subscription = door.subscribe("testQueue", auto_ack=True)
    door.publish("testExchange", "testQueue", b"hello")

    assert subscription.wait(1) == [Got("testQueue", 1, b"hello")]


def test_30_publish_then_subscribe(door: Door) -> None:
    door.queue("testQueue", durable=True)
    door.exchange("testExchange", "direct", durable=True)
    door.publish("testExchange", "testQueue", b"hello")

    assert door.subscribe("testQueue", auto_ack=True).wait(1) == [Got("testQueue", 1, b"hello")]


def test_31_fanout(door: Door) -> None:
    door.exchange("testExchange", "fanout")
    for name in ("testQueue1", "testQueue2"):
        door.queue(name)
        door.bind(name, "testExchange", "")
    door.publish("testExchange", "", b"hello")

    manual = door.subscribe("testQueue1", auto_ack=False)
    automatic = door.subscribe("testQueue2", auto_ack=True)
    assert manual.wait(1) == automatic.wait(1) == [Got("", 1, b"hello")]


def test_32_topic(door: Door) -> None:
    door.exchange("testExchange", "topic")
    door.queue("testQueue")
    door.bind("testQueue", "testExchange", "aaa.*")
    door.publish("testExchange", "aaa.bbb", b"hello")

    assert door.subscribe("testQueue", auto_ack=True).wait(1) == [Got("aaa.bbb", 1, b"hello")]


def test_33_manual_ack_in_the_callback(native_door: NativeDoor) -> None:
    results: queue.SimpleQueue[object] = queue.SimpleQueue()
    native_door.queue("testQueue", durable=True)
    channel = native_door.connection.create_channel()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        try:
            channel.basic_ack("testQueue", properties.message_id)
        except HeadraceError as error:
            results.put(error)
        else:
            results.put(body)

    native_door.publish("", "testQueue", b"hello")
    channel.basic_consume("testQueue", False, callback)
    assert results.get(timeout=10) == b"hello"
    channel.close()
    assert native_door.take("testQueue") is None
