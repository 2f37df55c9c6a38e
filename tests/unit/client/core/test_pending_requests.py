"""Requests and replies without a socket: every request gets its result exactly once."""

from __future__ import annotations

import pytest

from headrace.client.core import requests as operations
from headrace.client.core.connection_core import ConnectionState
from headrace.client.errors import (
    ChannelClosed,
    ConnectionClosed,
    HeadraceError,
    LoginRefused,
    NotFound,
    ProtocolViolation,
    RequestTimeout,
)
from headrace.wire.native.payloads import Op
from support.fake_client import Desk


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.greet()
    return desk


def publication(body: bytes = b"x", *, retry: bool = False) -> operations.ClientRequest[int]:
    return operations.publish(operations.message_fields(None, "q", None, body), retry)


def test_replies_in_any_order_reach_their_requests(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    futures = [desk.submit(channel, publication()) for _ in range(3)]
    requests = desk.said()

    for number in (2, 0, 1):
        desk.answer(requests[number], routed=number)
    assert [future.result(0) for future in futures] == [0, 1, 2]


def test_a_refusal_is_an_exception_with_code_and_text(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication())
    desk.refuse(desk.said()[0], "not_found", "no queue 'q'")

    error = future.exception(0)
    assert isinstance(error, NotFound)
    assert (error.code, error.text) == ("not_found", "no queue 'q'")


def test_an_unknown_code_keeps_its_name(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication())
    desk.refuse(desk.said()[0], "full_moon")

    error = future.exception(0)
    assert type(error) is HeadraceError
    assert error.code == "full_moon"


def test_no_answer_is_a_timeout_and_a_late_one_is_ignored(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication(), limit=5)
    (request,) = desk.said()
    desk.pass_time(6)

    assert isinstance(future.exception(0), RequestTimeout)
    desk.answer(request, routed=1)


def test_requests_wait_for_the_greeting() -> None:
    desk = Desk()
    future = desk.submit(None, operations.ClientRequest(Op.PING, {}, lambda reply: "pong"))
    assert desk.said() == []

    desk.greet()
    desk.answer(desk.said()[0])
    assert future.result(0) == "pong"


def test_a_refused_login_ends_everything() -> None:
    desk = Desk()
    future = desk.submit(None, operations.ClientRequest(Op.PING, {}, lambda reply: None))
    desk.core.connected(desk.now)
    desk.refuse(desk.said()[0], "login_refused")

    assert isinstance(future.exception(0), LoginRefused)
    assert desk.core.state is ConnectionState.CLOSED


def test_publishes_under_way_fail_when_the_connection_is_lost(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication())
    desk.said()
    desk.cut()

    assert isinstance(future.exception(0), ConnectionClosed)


def test_a_forced_close_is_a_lost_connection_for_what_is_under_way(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication())
    desk.say(Op.HELLO, rid=None, ch=None, ok=False, code="connection_forced", text="shutdown")
    assert desk.core.error is not None
    desk.core.lost(desk.core.error)
    desk.cut()

    assert isinstance(future.exception(0), ConnectionClosed)


def test_publishes_with_retry_are_sent_again_in_order(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    futures = [desk.submit(channel, publication(b"%d" % n, retry=True)) for n in range(3)]
    desk.answer(desk.said()[0], routed=1)
    desk.cut()
    later = desk.submit(channel, publication(b"3"))

    desk.greet()
    desk.answer(desk.said()[0])  # the channel is open again
    again = desk.said()
    assert [fields["body"] for _, fields in again] == [b"1", b"2", b"3"]
    for request in again:
        desk.answer(request, routed=1)
    assert [one.result(0) for one in [*futures, later]] == [1, 1, 1, 1]


def test_a_waiting_request_times_out_without_a_connection(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    desk.cut()
    future = desk.submit(channel, publication(), limit=2)
    desk.pass_time(3)

    assert isinstance(future.exception(0), RequestTimeout)


def test_after_close_every_call_fails(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    waiting = desk.submit(channel, publication(retry=True))
    desk.core.close()
    later = desk.submit(channel, publication())

    assert isinstance(waiting.exception(0), ConnectionClosed)
    assert isinstance(later.exception(0), ConnectionClosed)


def test_a_channel_that_the_broker_closed_is_of_no_use(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    desk.submit(channel, publication())
    desk.answer(desk.said()[0], ok=False, code="protocol", text="what?", closed=True)

    assert isinstance(desk.submit(channel, publication()).exception(0), ChannelClosed)


def test_a_body_that_cannot_be_sent_fails_only_its_own_call(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    with pytest.raises(TypeError, match="body must be bytes"):
        publication(object())  # type: ignore[arg-type]
    fields = operations.message_fields(None, "q", {"headers": {"a": object()}}, b"x")
    future = desk.submit(channel, operations.publish(fields, False))

    assert isinstance(future.exception(0), TypeError)
    assert desk.run(channel, publication(), routed=1) == 1


def test_an_incomplete_reply_is_an_error_of_its_call(desk: Desk) -> None:
    channel, _ = desk.open_channel()
    future = desk.submit(channel, publication())
    desk.answer(desk.said()[0])

    assert isinstance(future.exception(0), ProtocolViolation)


def test_bytes_without_sense_are_a_protocol_violation(desk: Desk) -> None:
    with pytest.raises(ProtocolViolation):
        desk.core.decode(b"\x00\x00\x00\x01\x7f\xff\xff\xff")
    with pytest.raises(ProtocolViolation):
        Desk().core.decode(b"\x00\x00\x00\x01\x00\x00\x00\x01\xc1")


def test_an_idle_connection_pings_and_a_dead_one_is_closed(desk: Desk) -> None:
    desk.pass_time(31)
    ((kind, _),) = desk.said()
    assert kind == Op.PING
    assert desk.core.error is None

    desk.pass_time(90)
    assert isinstance(desk.core.error, ConnectionClosed)


def test_the_reason_of_a_forced_close_is_kept(desk: Desk) -> None:
    desk.say(Op.HELLO, rid=None, ch=None, ok=False, code="connection_forced", text="shutdown")
    assert desk.core.error is not None
    assert desk.core.error.text == "shutdown"


def test_large_batches_are_split() -> None:
    calls = list(operations.publish_batches([("", "q", None, b"x")] * 2500, False))
    assert [len(call.fields["batch"]) for call in calls] == [1000, 1000, 500]


def test_unknown_properties_are_refused_at_home() -> None:
    with pytest.raises(TypeError, match="colour"):
        operations.message_fields("", "q", {"colour": "red"}, b"")


def test_a_request_that_ends_the_connection_is_not_repeated_endlessly() -> None:
    desk = Desk()
    desk.greet()
    future = desk.submit(
        None, operations.ClientRequest(Op.PING, {}, lambda reply: "pong", repeatable=True)
    )
    cuts = 0
    while not future.done():
        assert desk.said()
        desk.cut()
        desk.greet()
        cuts += 1

    assert 1 < cuts <= 10
    assert isinstance(future.exception(0), ConnectionClosed)
