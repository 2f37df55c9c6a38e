"""Scenarios 22 to 33: declaring, binding, publishing, subscribing, through both protocols."""

from __future__ import annotations

import queue

import pytest

from headrace.client import BasicProperties, HeadraceError, NotFound
from support.protocol_clients import Got, NativeClient, ProtocolClient


def test_22_declare_an_exchange(client: ProtocolClient) -> None:
    client.exchange("testExchange", "direct", durable=True)
    client.declare_exchange("testExchange", "direct", durable=True)


def test_23_declare_and_delete_an_exchange(client: ProtocolClient) -> None:
    client.exchange("testExchange", "direct", durable=True)
    client.delete_exchange("testExchange")


def test_24_declare_a_queue(client: ProtocolClient) -> None:
    client.queue("testQueue", durable=True)
    client.declare_queue("testQueue", durable=True)


def test_25_declare_and_delete_a_queue(client: ProtocolClient) -> None:
    client.queue("testQueue", durable=True)
    client.delete_queue("testQueue")


def test_26_bind(client: ProtocolClient) -> None:
    client.queue("testQueue", durable=True)
    client.exchange("testExchange", "direct", durable=True)
    client.bind("testQueue", "testExchange", "testBindingKey")
    client.bind("testQueue", "testExchange", "testBindingKey")
    client.bind("testQueue", "testExchange", "another")
    client.publish("testExchange", "testBindingKey", b"x")

    assert client.take_all("testQueue") == [b"x"]


def test_27_unbind_without_a_key(native_client: NativeClient) -> None:
    native_client.queue("testQueue", durable=True)
    native_client.exchange("testExchange", "direct", durable=True)
    for key in ("testBindingKey", "another"):
        native_client.bind("testQueue", "testExchange", key)
    native_client.channel.queue_unbind("testQueue", "testExchange")

    assert [row for row in native_client.rows("bindings") if row["source"]] == []
    with pytest.raises(NotFound):
        native_client.channel.queue_unbind("testQueue", "testExchange")


@pytest.mark.parametrize(("end", "name"), [("queue", "testExchange"), ("exchange", "testQueue")])
def test_binding_what_is_not_there_is_an_error(
    native_client: NativeClient, end: str, name: str
) -> None:
    if end == "queue":
        native_client.exchange("testExchange", "direct")
    else:
        native_client.queue("testQueue")
    with pytest.raises(NotFound):
        native_client.bind("testQueue", "testExchange", "k")


def test_28_publish_directly(native_client: NativeClient) -> None:
    native_client.queue("testQueue", durable=True)
    native_client.exchange("testExchange", "direct", durable=True)
    assert native_client.channel.basic_publish("testExchange", "testQueue", None, b"hello") == 1


def test_28_publishing_an_unroutable_message_is_an_error(native_client: NativeClient) -> None:
    native_client.exchange("testExchange", "direct", durable=True)
    with pytest.raises(NotFound):
        native_client.channel.basic_publish("testExchange", "noQueue", None, b"hello")
    with pytest.raises(NotFound):
        native_client.channel.basic_publish(None, "noQueue", None, b"hello")
    with pytest.raises(NotFound):
        native_client.channel.basic_publish("noExchange", "noQueue", None, b"hello")


def test_by_name_and_by_binding_is_one_copy(client: ProtocolClient) -> None:
    client.queue("testQueue")
    client.exchange("testExchange", "direct")
    client.bind("testQueue", "testExchange", "testQueue")
    client.publish("testExchange", "testQueue", b"once")

    assert client.take_all("testQueue") == [b"once"]


def test_29_subscribe_then_publish(client: ProtocolClient) -> None:
    client.queue("testQueue", durable=True)
    client.exchange("testExchange", "direct", durable=True)
    subscription = client.subscribe("testQueue", auto_ack=True)
    client.publish("testExchange", "testQueue", b"hello")

    assert subscription.wait(1) == [Got("testQueue", 1, b"hello")]


def test_30_publish_then_subscribe(client: ProtocolClient) -> None:
    client.queue("testQueue", durable=True)
    client.exchange("testExchange", "direct", durable=True)
    client.publish("testExchange", "testQueue", b"hello")

    assert client.subscribe("testQueue", auto_ack=True).wait(1) == [Got("testQueue", 1, b"hello")]


def test_31_fanout(client: ProtocolClient) -> None:
    client.exchange("testExchange", "fanout")
    for name in ("testQueue1", "testQueue2"):
        client.queue(name)
        client.bind(name, "testExchange", "")
    client.publish("testExchange", "", b"hello")

    manual = client.subscribe("testQueue1", auto_ack=False)
    automatic = client.subscribe("testQueue2", auto_ack=True)
    assert manual.wait(1) == automatic.wait(1) == [Got("", 1, b"hello")]


def test_32_topic(client: ProtocolClient) -> None:
    client.exchange("testExchange", "topic")
    client.queue("testQueue")
    client.bind("testQueue", "testExchange", "aaa.*")
    client.publish("testExchange", "aaa.bbb", b"hello")

    assert client.subscribe("testQueue", auto_ack=True).wait(1) == [Got("aaa.bbb", 1, b"hello")]


def test_33_manual_ack_in_the_callback(native_client: NativeClient) -> None:
    results: queue.SimpleQueue[object] = queue.SimpleQueue()
    native_client.queue("testQueue", durable=True)
    channel = native_client.connection.create_channel()

    def callback(consumer_tag: str, properties: BasicProperties, body: bytes) -> None:
        try:
            channel.basic_ack("testQueue", properties.message_id)
        except HeadraceError as error:
            results.put(error)
        else:
            results.put(body)

    native_client.publish("", "testQueue", b"hello")
    channel.basic_consume("testQueue", False, callback)
    assert results.get(timeout=10) == b"hello"
    channel.close()
    assert native_client.take("testQueue") is None
