"""After a reconnection everything is as it was: declarations, channels, consumers, names."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.client.core.channel_core import ChannelCore
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.connection_core import ConnectionState
from headrace.client.core.unsettled import Delivery
from headrace.client.errors import ConnectionClosed, ConsumerCancelled, ResourceLocked
from headrace.wire.native.payloads import Op
from support.fake_client import Box, Desk, Request

PLAIN: dict[str, Any] = {"durable": False, "auto_delete": False, "arguments": None}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.greet()
    return desk


def declare_queue(
    desk: Desk,
    channel: ChannelState,
    calls: ChannelCore[Delivery],
    name: str,
    **attributes: bool,
) -> None:
    call = calls.queue_declare(name, **{**PLAIN, "exclusive": False, **attributes})
    desk.run(channel, call, name=name or "amq.gen-1", messages=0, consumers=0)


def declare_exchange(
    desk: Desk,
    channel: ChannelState,
    calls: ChannelCore[Delivery],
    name: str,
    **attributes: bool,
) -> None:
    call = calls.exchange_declare(name, "topic", **{**PLAIN, "internal": False, **attributes})
    desk.run(channel, call, created=True)


def consume(desk: Desk, channel: ChannelState, calls: ChannelCore[Delivery], queue: str) -> Box:
    box = Box(channel.unsettled)
    tag = calls.new_tag()
    call = calls.consume(queue, tag, box, exclusive=False, arguments=None)
    desk.run(channel, call, consumer_tag=tag)
    return box


def recover(desk: Desk, **names: str) -> list[Request]:
    """Reconnect; the broker agrees with every step, and names new queues as told."""
    desk.cut()
    desk.greet()
    steps: list[Request] = []
    while requests := desk.said():
        assert len(requests) == 1, "one step at a time"
        steps += requests
        name = requests[0][1].get("name") or names.get("unnamed", "")
        desk.answer(requests[0], name=name)
    assert desk.core.state is ConnectionState.READY
    return steps


def test_what_was_declared_is_declared_again_in_order(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_exchange(desk, channel, calls, "e")
    declare_queue(desk, channel, calls, "q", durable=True)
    desk.run(channel, calls.queue_bind("q", "e", "a.*", None))
    desk.run(channel, calls.basic_qos(7))
    consume(desk, channel, calls, "q")

    steps = recover(desk)
    assert [kind for kind, _ in steps] == [
        Op.CHANNEL_OPEN,
        Op.EXCHANGE_DECLARE,
        Op.QUEUE_DECLARE,
        Op.BIND,
        Op.CHANNEL_CLOSE,
        Op.CHANNEL_OPEN,
        Op.QOS,
        Op.CONSUME,
    ]
    assert steps[2][1]["durable"] is True
    assert steps[3][1]["key"] == "a.*"
    assert steps[6][1]["prefetch"] == 7
    assert (steps[5][1]["ch"], steps[7][1]["ch"]) == (channel.id, channel.id)


def test_what_was_deleted_stays_away(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_exchange(desk, channel, calls, "e")
    declare_queue(desk, channel, calls, "q")
    desk.run(channel, calls.queue_bind("q", "e", "", None))
    desk.run(channel, calls.queue_delete("q"), messages=0)
    desk.run(channel, calls.exchange_delete("e"))

    assert [kind for kind, _ in recover(desk)] == [Op.CHANNEL_OPEN]


def test_unbinding_without_a_key_forgets_all_bindings_of_the_pair(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    for key in ("a", "b"):
        desk.run(channel, calls.queue_bind("q", "e", key, None))
    desk.run(channel, calls.queue_bind("q", "other", "a", None))
    desk.run(channel, calls.queue_unbind("q", "e", None, None))

    assert [one["source"] for one in desk.core.topology.bindings] == ["other"]


def test_unbinding_with_a_key_forgets_one(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    for key in ("a", "b", "b"):
        desk.run(channel, calls.queue_bind("q", "e", key, None))
    desk.run(channel, calls.queue_unbind("q", "e", "a", None))

    assert [one["key"] for one in desk.core.topology.bindings] == ["b"]


def test_an_exclusive_queue_named_by_the_broker_gets_its_new_name_everywhere(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_queue(desk, channel, calls, "", exclusive=True)
    desk.run(channel, calls.queue_bind("amq.gen-1", "amq.fanout", "", None))
    box = consume(desk, channel, calls, "amq.gen-1")

    steps = recover(desk, unnamed="amq.gen-2")
    fields = {kind: fields for kind, fields in steps}
    assert fields[Op.QUEUE_DECLARE]["name"] == ""
    assert fields[Op.BIND]["queue"] == "amq.gen-2"
    assert fields[Op.CONSUME]["queue"] == "amq.gen-2"
    desk.push(channel, "ctag1.1", 1)
    assert len(box.deliveries) == 1

    # The program may go on to use the old name, also after another reconnection.
    recover(desk, unnamed="amq.gen-3")
    desk.submit(channel, calls.queue_purge("amq.gen-1"))
    desk.submit(channel, calls.queue_bind("amq.gen-2", "e", "", None))
    assert [fields["queue"] for _, fields in desk.said()] == ["amq.gen-3", "amq.gen-3"]


@pytest.mark.parametrize(("rows", "is_declared"), [([{"name": "amq.gen-1"}], False), ([], True)])
def test_a_shared_queue_named_by_the_broker_is_looked_for(
    desk: Desk, rows: list[dict[str, str]], is_declared: bool
) -> None:
    channel, calls = desk.open_channel()
    declare_queue(desk, channel, calls, "", durable=True)
    desk.cut()
    desk.greet()

    desk.answer(desk.said()[0])
    ((kind, _),) = question = desk.said()
    assert kind == Op.LIST
    desk.answer(question[0], rows=rows, more=False)
    assert (desk.said()[0][0] == Op.QUEUE_DECLARE) is is_declared


@pytest.mark.parametrize(
    ("name", "exclusive", "is_repeated"),
    [("q", False, True), ("q", True, True), ("", True, True), ("", False, False)],
)
def test_a_declaration_under_way_is_repeated_unless_it_may_leave_a_queue_behind(
    desk: Desk, name: str, exclusive: bool, is_repeated: bool
) -> None:
    channel, calls = desk.open_channel()
    future = desk.submit(channel, calls.queue_declare(name, **{**PLAIN, "exclusive": exclusive}))
    ((kind, _),) = desk.said()
    assert kind == Op.QUEUE_DECLARE
    desk.cut()
    desk.greet()
    desk.answer(desk.said()[0])  # the channel is open again
    again = desk.said()

    assert [kind for kind, _ in again] == [Op.QUEUE_DECLARE] * is_repeated
    if is_repeated:
        desk.answer(again[0], name=name or "amq.gen-2", messages=0, consumers=0)
        assert future.result(0).name == (name or "amq.gen-2")
    else:
        assert isinstance(future.exception(0), ConnectionClosed)


def test_recovery_goes_on_without_what_cannot_be_declared(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_queue(desk, channel, calls, "a")
    declare_queue(desk, channel, calls, "b")
    desk.cut()
    desk.greet()

    desk.answer(desk.said()[0])
    desk.refuse(desk.said()[0], "precondition_failed")
    ((kind, fields),) = desk.said()
    assert (kind, fields["name"]) == (Op.QUEUE_DECLARE, "b")


def test_a_locked_queue_is_tried_again_on_another_connection(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_queue(desk, channel, calls, "mine", exclusive=True)
    desk.cut()
    desk.greet()

    desk.answer(desk.said()[0])
    desk.refuse(desk.said()[0], "resource_locked")
    assert isinstance(desk.core.error, ResourceLocked)


def test_a_consumer_that_cannot_be_restored_is_notified(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    box = consume(desk, channel, calls, "q")
    desk.cut()
    desk.greet()

    desk.answer(desk.said()[0])
    desk.refuse(desk.said()[0], "not_found")
    assert [type(one) for one in box.endings] == [ConsumerCancelled]
    assert desk.core.state is ConnectionState.READY


def test_a_consumer_cancelled_by_the_broker_is_notified_and_not_restored(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    box = consume(desk, channel, calls, "q")
    desk.say(Op.CANCEL, ch=channel.id, consumer_tag="ctag1.1")

    assert [type(one) for one in box.endings] == [ConsumerCancelled]
    assert [kind for kind, _ in recover(desk)] == [Op.CHANNEL_OPEN]


def test_an_auto_delete_queue_is_forgotten_with_its_last_consumer(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_queue(desk, channel, calls, "q", auto_delete=True)
    for _ in range(2):
        consume(desk, channel, calls, "q")

    desk.run(channel, calls.basic_cancel("ctag1.1"))
    assert "q" in desk.core.topology.queues
    desk.run(channel, calls.basic_cancel("ctag1.2"))
    assert "q" not in desk.core.topology.queues


def test_an_auto_delete_exchange_is_forgotten_with_its_last_binding(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    declare_exchange(desk, channel, calls, "e", auto_delete=True)
    desk.run(channel, calls.queue_bind("q", "e", "", None))
    desk.run(channel, calls.queue_unbind("q", "e", "", None))

    assert desk.core.topology.exchanges == {}


def test_a_consumer_whose_cancellation_was_cut_off_does_not_come_back(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    consume(desk, channel, calls, "q")
    desk.submit(channel, calls.basic_cancel("ctag1.1"))
    desk.said()

    assert [kind for kind, _ in recover(desk)] == [Op.CHANNEL_OPEN]


def test_messages_for_a_cancelled_consumer_go_back(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    consume(desk, channel, calls, "q")
    desk.run(channel, calls.basic_cancel("ctag1.1"))
    desk.push(channel, "ctag1.1", 1)

    ((kind, fields),) = desk.said()
    assert (kind, fields["tag"], fields["requeue"]) == (Op.NACK, 1, True)


def test_settlements_precede_the_next_request_of_their_channel(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    box = consume(desk, channel, calls, "q")
    desk.push(channel, "ctag1.1", 1, 2)
    for one in box.deliveries:
        one.ack()
    desk.submit(channel, calls.queue_purge("q"))

    assert [(kind, fields.get("tag")) for kind, fields in desk.said()] == [
        (Op.ACK, 2),
        (Op.PURGE, None),
    ]


def test_an_ack_by_id_of_a_known_message_names_its_tag(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    consume(desk, channel, calls, "q")
    desk.push(channel, "ctag1.1", 1, 2)
    for message_id in ("M-2", "M-9"):
        call = calls.basic_ack("q", message_id, wait=True)
        assert call is not None
        desk.submit(channel, call)

    known, unknown = (fields for _, fields in desk.said())
    assert known["tag"] == 2
    assert (unknown["queue"], unknown["message_id"]) == ("q", "M-9")


def test_acks_of_a_lost_connection_are_no_requests(desk: Desk) -> None:
    channel, calls = desk.open_channel()
    box = consume(desk, channel, calls, "q")
    desk.push(channel, "ctag1.1", 1)
    recover(desk)

    box.deliveries[0].ack()
    assert calls.basic_ack(tag=1, wait=True) is None
    assert desk.said() == []
