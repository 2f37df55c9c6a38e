"""Consuming and settling."""

from __future__ import annotations

import pytest

from headrace.testing import wait_for
from support.native_types import Connect, Namer
from support.raw_native import (
    ACK,
    CANCEL,
    CHANNEL_CLOSE,
    CHANNEL_OPEN,
    CONSUME,
    NACK,
    PUBLISH,
    PURGE,
    PUSH,
    QOS,
    QUEUE_DECLARE,
    QUEUE_DELETE,
    Native,
    Refused,
    request_frame,
)


def fill(client: Native, queue: str, count: int, **properties: object) -> None:
    batch = [
        {"exchange": "", "key": queue, "properties": properties, "body": b"%d" % number}
        for number in range(count)
    ]
    client.call(PUBLISH, batch=batch)


def counts(client: Native, queue: str) -> tuple[int, int]:
    (row,) = client.rows("queues", name=queue)
    return row["messages"], row["messages_unacknowledged"]


def test_the_backlog_comes_first_and_in_one_frame(client: Native, queue: str) -> None:
    fill(client, queue, 50)
    tag = client.call(CONSUME, queue=queue)["consumer_tag"]
    kind, pushed = client.event()

    assert (kind, pushed["ch"], pushed["consumer_tag"]) == (PUSH, 1, tag)
    assert [one["body"] for one in pushed["batch"]] == [b"%d" % number for number in range(50)]
    assert [one["tag"] for one in pushed["batch"]] == list(range(1, 51))
    client.publish("", queue, b"later")
    assert client.event()[1]["body"] == b"later"


def test_a_consumer_has_the_tag_it_wants_once(client: Native, queue: str) -> None:
    assert client.call(CONSUME, queue=queue, consumer_tag="mine")["consumer_tag"] == "mine"

    with pytest.raises(Refused) as refused:
        client.call(CONSUME, queue=queue, consumer_tag="mine")
    assert refused.value.code == "not_allowed"
    client.call(CHANNEL_OPEN, 2)
    client.call(CONSUME, 2, queue=queue, consumer_tag="mine")


def test_without_acks_nothing_is_held(client: Native, queue: str) -> None:
    fill(client, queue, 3)
    client.call(CONSUME, queue=queue, auto_ack=True)

    assert len(client.deliveries(3)) == 3
    assert counts(client, queue) == (0, 0)


def test_ack_by_tag_alone_and_up_to(client: Native, queue: str) -> None:
    fill(client, queue, 10)
    client.call(CONSUME, queue=queue)
    client.deliveries(10)
    client.call(ACK, tag=5)
    assert counts(client, queue) == (0, 9)
    client.call(ACK, tag=7, multiple=True)
    assert counts(client, queue) == (0, 3)
    client.call(ACK, tag=0, multiple=True)
    assert counts(client, queue) == (0, 0)


def test_ack_by_queue_and_message_id(client: Native, queue: str) -> None:
    fill(client, queue, 3)
    client.call(CONSUME, queue=queue)
    ids = [one["properties"]["message_id"] for one in client.deliveries(3)]
    client.call(ACK, queue=queue, message_id=ids[1])
    assert counts(client, queue) == (0, 2)
    client.call(ACK, queue=queue, message_id=ids[2], multiple=True)
    assert counts(client, queue) == (0, 0)


def test_what_is_not_held_cannot_be_settled(client: Native, queue: str, name: Namer) -> None:
    fill(client, queue, 1)
    message = client.get(queue)["properties"]["message_id"]
    client.call(ACK, queue=queue, message_id=message)

    for fields, code in (
        ({"queue": queue, "message_id": message}, "not_found"),
        ({"queue": queue, "message_id": "no such"}, "not_found"),
        ({"queue": name(), "message_id": message}, "not_found"),
        ({"tag": 1}, "precondition_failed"),
        ({"tag": 99}, "precondition_failed"),
        ({"tag": 99, "multiple": True}, "precondition_failed"),
    ):
        for kind in (ACK, NACK):
            with pytest.raises(Refused) as refused:
                client.call(kind, **fields)
            assert (refused.value.code, refused.value.answer.get("closed")) == (code, None)


def test_an_id_that_is_outstanding_already_gets_a_suffix(client: Native, queue: str) -> None:
    fill(client, queue, 3, message_id="same")
    client.call(CONSUME, queue=queue)
    ids = [one["properties"]["message_id"] for one in client.deliveries(3)]

    assert ids == ["same", "same#2", "same#3"]
    client.call(ACK, queue=queue, message_id="same#2")
    client.call(NACK, queue=queue, message_id="same", requeue=True)
    (again,) = client.deliveries(1)
    assert (again["properties"]["message_id"], again["body"]) == ("same", b"0")


def test_nack_gives_back_or_gives_up(client: Native, queue: str) -> None:
    fill(client, queue, 2)
    client.call(CONSUME, queue=queue)
    first, second = client.deliveries(2)
    client.call(NACK, tag=first["tag"])
    (again,) = client.deliveries(1)
    assert (again["body"], again["redelivered"], again["tag"]) == (b"0", True, 3)
    client.call(NACK, tag=second["tag"], requeue=False)
    client.call(NACK, tag=0, multiple=True, requeue=False)
    assert counts(client, queue) == (0, 0)


def test_prefetch_limits_each_consumer(client: Native, queue: str) -> None:
    fill(client, queue, 10)
    client.call(QOS, prefetch=3)
    client.call(CONSUME, queue=queue)
    assert len(client.deliveries(3)) == 3
    assert client.nothing_comes()
    client.call(ACK, tag=2, multiple=True)
    assert len(client.deliveries(2)) == 2
    (row,) = client.rows("consumers", queue=queue)
    assert (row["prefetch"], row["ack_required"]) == (3, True)


def test_consumers_take_turns(client: Native, connect: Connect, queue: str) -> None:
    other = connect()
    for each in (client, other):
        each.call(CONSUME, queue=queue, auto_ack=True)
    fill(client, queue, 10)

    assert [len(each.deliveries(5)) for each in (client, other)] == [5, 5]


def test_an_exclusive_consumer_is_alone(client: Native, connect: Connect, queue: str) -> None:
    client.call(CONSUME, queue=queue, exclusive=True)

    with pytest.raises(Refused) as refused:
        connect().call(CONSUME, queue=queue)
    assert refused.value.code == "access_refused"


def test_priorities_decide_who_is_served(client: Native, connect: Connect, queue: str) -> None:
    other = connect()
    client.call(CONSUME, queue=queue, auto_ack=True)
    other.call(CONSUME, queue=queue, auto_ack=True, arguments={"x-priority": 5})
    fill(client, queue, 4)

    assert len(other.deliveries(4)) == 4
    assert client.nothing_comes()


def test_cancelling_ends_deliveries_and_keeps_what_is_held(client: Native, queue: str) -> None:
    fill(client, queue, 1)
    tag = client.call(CONSUME, queue=queue)["consumer_tag"]
    client.deliveries(1)
    client.call(CANCEL, consumer_tag=tag)
    fill(client, queue, 1)

    assert client.nothing_comes()
    client.call(ACK, tag=1)
    assert counts(client, queue) == (1, 0)
    with pytest.raises(Refused) as refused:
        client.call(CANCEL, consumer_tag=tag)
    assert refused.value.code == "not_found"


def test_what_is_published_before_a_cancel_is_pushed_before_its_answer(
    client: Native, queue: str
) -> None:
    """In one read of the broker: the client looks for no more pushes once it has the answer."""
    tag = client.call(CONSUME, queue=queue)["consumer_tag"]
    publish = {"rid": 100, "ch": 1, "exchange": "", "key": queue, "body": b"a"}
    cancel = {"rid": 101, "ch": 1, "consumer_tag": tag}
    client.send(request_frame(PUBLISH, publish) + request_frame(CANCEL, cancel))

    frames = [client.read() for _ in range(3)]  # in which order the publish is answered is open
    assert sorted(fields.get("rid", 0) for _, fields in frames) == [0, 100, 101]
    kinds = [kind for kind, fields in frames if fields.get("rid") != 100]
    assert kinds == [PUSH, CANCEL]


def test_a_consumer_is_cancelled_when_its_queue_is_deleted(
    client: Native, connect: Connect, queue: str
) -> None:
    tag = client.call(CONSUME, queue=queue)["consumer_tag"]
    connect().call(QUEUE_DELETE, name=queue)

    assert client.event() == (CANCEL, {"ch": 1, "consumer_tag": tag})
    with pytest.raises(Refused, match="no queue"):
        client.call(CONSUME, queue=queue)


@pytest.mark.parametrize("how", ["channel", "connection"])
def test_what_was_held_returns_when_its_holder_goes(
    client: Native, connect: Connect, queue: str, how: str
) -> None:
    holder = connect()
    fill(client, queue, 5)
    holder.call(CONSUME, queue=queue)
    holder.deliveries(5)
    holder.get(queue)
    if how == "channel":
        holder.call(CHANNEL_CLOSE)
    else:
        holder.close()

    wait_for(lambda: counts(client, queue) == (5, 0))
    assert client.get(queue)["redelivered"] is True


def test_an_ack_timeout_takes_messages_back(client: Native, name: Namer) -> None:
    own = client.queue(name(), arguments={"x-ack-timeout": 100})
    fill(client, own, 1)
    message = client.get(own)

    wait_for(lambda: counts(client, own) == (1, 0))
    client.call(ACK, tag=message["tag"])
    with pytest.raises(Refused) as refused:
        client.call(ACK, queue=own, message_id=message["properties"]["message_id"])
    assert refused.value.code == "not_found"


def test_a_quorum_queue_counts_deliveries(client: Native, name: Namer) -> None:
    own = client.queue(name(), durable=True, arguments={"x-queue-type": "quorum"})
    fill(client, own, 1)
    client.call(NACK, tag=client.get(own)["tag"])

    assert client.get(own)["properties"]["headers"] == {"x-delivery-count": 1}


def test_purging_returns_the_number_of_messages(client: Native, queue: str) -> None:
    fill(client, queue, 4)

    assert client.call(PURGE, queue=queue)["messages"] == 4
    assert client.call(QUEUE_DECLARE, name=queue)["messages"] == 0


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: Native, name: Namer) -> None:
    own = client.queue(name(), auto_delete=True)
    tag = client.call(CONSUME, queue=own)["consumer_tag"]
    client.call(CANCEL, consumer_tag=tag)

    assert client.rows("queues", name=own) == []


@pytest.mark.parametrize("kind", [CONSUME, PURGE])
def test_a_queue_that_is_not_there_is_not_found(client: Native, name: Namer, kind: int) -> None:
    with pytest.raises(Refused) as refused:
        client.call(kind, queue=name())
    assert refused.value.code == "not_found"


def test_prefetch_has_bounds(client: Native) -> None:
    with pytest.raises(Refused) as refused:
        client.call(QOS, prefetch=65536)
    assert refused.value.code == "precondition_failed"


def test_large_deliveries_come_in_several_frames(client: Native, queue: str) -> None:
    body = bytes(400_000)
    for _ in range(6):
        client.publish("", queue, body)
    client.call(CONSUME, queue=queue)

    assert [one["body"] == body for one in client.deliveries(6)] == [True] * 6
