"""Publishing: routes, answers, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.native_types import Connect, Namer, StartBroker
from support.raw_native import BIND, EXCHANGE_DECLARE, GET, PUBLISH, Native, Refused


def one(exchange: str, key: str, body: bytes, **properties: object) -> dict[str, object]:
    return {"exchange": exchange, "key": key, "properties": properties, "body": body}


def test_a_message_comes_out_as_it_went_in(client: Native, queue: str) -> None:
    properties = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "headers": {"a": 1, "b": [True, None, {"c": b"x"}], "d": 1.5},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "100000",
        "message_id": "m",
        "timestamp": 1_700_000_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
    }
    assert client.publish("", queue, b"\0body", **properties)["routed"] == 1

    message = client.get(queue)
    assert message is not None
    assert message["properties"] == {**properties, "routing_key": queue}
    assert message["body"] == b"\0body"
    assert (message["exchange"], message["key"], message["queue"]) == ("", queue, queue)
    assert (message["tag"], message["redelivered"]) == (1, False)


def test_without_properties_three_are_shown(client: Native, queue: str) -> None:
    client.call(PUBLISH, exchange=None, key=queue, properties=None, body=b"")

    shown = client.get(queue)["properties"]
    assert sorted(shown) == ["delivery_mode", "message_id", "routing_key"]
    assert (shown["delivery_mode"], shown["routing_key"]) == (1, queue)
    assert shown["message_id"].startswith("M-")


def test_every_copy_has_an_id_of_its_own(client: Native, name: Namer) -> None:
    queues = [client.queue(name()), client.queue(name())]
    own = name()
    client.call(EXCHANGE_DECLARE, name=own, type="fanout")
    for each in queues:
        client.call(BIND, queue=each, source=own)
    assert client.publish(own, "", b"x")["routed"] == 2
    assert client.publish(own, "", b"y")["routed"] == 2

    ids = [client.get(each)["properties"]["message_id"] for each in queues * 2]
    assert len(set(ids)) == 4


def test_a_batch_is_one_request(client: Native, name: Namer) -> None:
    first, second = client.queue(name()), client.queue(name())
    batch = [one("", first, b"%d" % i, delivery_mode=1 + i % 2) for i in range(20)]
    batch += [one("", second, b"x"), one("amq.fanout", "", b"nobody")]
    batch += [one("", first, b"last")]

    assert client.call(PUBLISH, batch=batch)["routed"] == [1] * 21 + [0, 1]
    assert client.bodies(first) == [*[b"%d" % i for i in range(20)], b"last"]
    assert client.bodies(second) == [b"x"]


def test_an_empty_batch_is_fine(client: Native) -> None:
    assert client.call(PUBLISH, batch=[])["routed"] == []


def test_a_batch_with_a_fault_publishes_nothing(client: Native, queue: str) -> None:
    with pytest.raises(Refused) as refused:
        client.call(PUBLISH, batch=[one("", queue, b"x"), one("nowhere-at-all", "", b"y")])
    assert refused.value.code == "not_found"
    with pytest.raises(Refused) as refused:
        client.call(PUBLISH, batch=[one("", queue, b"x"), one("", queue, b"y", expiration="?")])
    assert refused.value.code == "precondition_failed"
    assert client.bodies(queue) == []


def test_requests_may_be_pipelined(client: Native, queue: str) -> None:
    rids = [
        client.request(PUBLISH, exchange="", key=queue, properties={"delivery_mode": 2}, body=b"%d")
        for _ in range(200)
    ]

    assert [client.answer(rid)["routed"] for rid in rids] == [1] * 200
    assert len(client.bodies(queue)) == 200


def test_a_direct_exchange_delivers_by_name_and_by_binding(client: Native, name: Namer) -> None:
    own, named, bound = name(), client.queue(name()), client.queue(name())
    client.call(EXCHANGE_DECLARE, name=own)
    for each in (named, bound):
        client.call(BIND, queue=each, source=own, key=named)

    assert client.publish(own, named, b"x")["routed"] == 2
    assert client.bodies(named) == client.bodies(bound) == [b"x"]


@pytest.mark.parametrize("kind", ["default", "direct"])
def test_a_queue_that_is_not_there_is_not_found(client: Native, name: Namer, kind: str) -> None:
    exchange = "" if kind == "default" else name()
    if exchange:
        client.call(EXCHANGE_DECLARE, name=exchange)

    with pytest.raises(Refused) as refused:
        client.publish(exchange, name(), b"x")
    assert refused.value.code == "not_found"


def test_elsewhere_nothing_routed_is_visible_and_no_error(client: Native, name: Namer) -> None:
    own, by_pattern = name(), name()  # others bind to amq.topic
    client.call(EXCHANGE_DECLARE, name=own, arguments={"x-direct-to-queue": False})
    client.call(EXCHANGE_DECLARE, name=by_pattern, type="topic")

    assert client.publish(own, client.queue(name()), b"x")["routed"] == 0
    assert client.publish(by_pattern, "a.b", b"x")["routed"] == 0


def test_headers_and_carbon_copies_decide(client: Native, name: Namer) -> None:
    by_headers, copied = client.queue(name()), client.queue(name())
    own = name()
    client.call(EXCHANGE_DECLARE, name=own, type="headers")
    client.call(BIND, queue=by_headers, source=own, arguments={"x-match": "all", "a": 1})

    assert client.publish(own, "", b"yes", headers={"a": 1})["routed"] == 1
    assert client.publish(own, "", b"no", headers={"a": 2})["routed"] == 0
    assert client.publish("", by_headers, b"both", headers={"CC": [copied]})["routed"] == 2
    assert client.bodies(by_headers) == [b"yes", b"both"]
    assert client.bodies(copied) == [b"both"]


def test_messages_expire(client: Native, queue: str) -> None:
    client.publish("", queue, b"gone", expiration="0")
    client.publish("", queue, b"here", expiration=60_000)

    assert client.bodies(queue) == [b"here"]


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"user_id": "somebody"}, "precondition_failed"),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "precondition_failed"),
        ({"expiration": "-1"}, "precondition_failed"),
        ({"delivery_mode": 3}, "precondition_failed"),
        ({"colour": "red"}, "precondition_failed"),
        ({"headers": {"a": "x" * 140_000}}, "precondition_failed"),
        ({"headers": {"CC": "not a list"}}, "precondition_failed"),
    ],
)
def test_impossible_properties_are_refused(
    client: Native, queue: str, properties: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as refused:
        client.publish("", queue, b"x", **properties)
    assert refused.value.code == code
    assert client.publish("", queue, b"y")["routed"] == 1


def test_an_internal_exchange_is_closed_to_publishers(client: Native, name: Namer) -> None:
    own = name()
    client.call(EXCHANGE_DECLARE, name=own, type="fanout", internal=True)

    with pytest.raises(Refused) as refused:
        client.publish(own, "", b"x")
    assert refused.value.code == "access_refused"


def test_a_full_queue_refuses(client: Native, name: Namer) -> None:
    full = client.queue(name(), arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    client.publish("", full, b"1")

    with pytest.raises(Refused) as refused:
        client.call(PUBLISH, batch=[one("", full, b"%d" % i) for i in (2, 3, 4)])
    assert refused.value.code == "resource"
    assert refused.value.answer["refused"] == [1, 2]
    with pytest.raises(Refused, match="resource"):
        client.publish("", full, b"5")
    assert client.bodies(full) == [b"1", b"2"]


def test_a_message_may_be_as_large_as_allowed_and_no_larger(
    start_broker: StartBroker, connect: Connect
) -> None:
    client = connect(start_broker("--max-message-size", "300KiB"))
    queue = client.queue(exclusive=True)
    body = bytes(range(256)) * 1200

    assert client.publish("", queue, body)["routed"] == 1
    assert client.get(queue)["body"] == body
    with pytest.raises(Refused, match="larger than configured"):
        client.publish("", queue, body + b"x")


def test_answers_come_after_the_disk_and_messages_survive(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    broker = start_broker("--data-dir", data)
    client = connect(broker)
    client.queue("kept", durable=True)
    batch = [one("", "kept", b"%d" % i, delivery_mode=2) for i in range(100)]
    assert client.call(PUBLISH, batch=batch)["routed"] == [1] * 100
    broker.kill()

    again = connect(start_broker("--data-dir", data))
    assert again.bodies("kept") == [b"%d" % i for i in range(100)]


def test_a_get_returns_the_number_of_remaining_messages(client: Native, queue: str) -> None:
    for body in (b"a", b"b"):
        client.publish("", queue, body)

    assert client.call(GET, queue=queue)["messages"] == 1
    assert client.call(GET, queue=queue)["messages"] == 0
    assert client.call(GET, queue=queue)["message"] is None
