"""The beginning and the end of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import __version__
from support.native_types import Connect, StartBroker
from support.raw_native import (
    CHANNEL_CLOSE,
    CHANNEL_OPEN,
    HELLO,
    PING,
    QUEUE_DECLARE,
    Native,
    NothingCame,
    Refused,
    request_frame,
)


def test_a_hello_is_answered_with_version_and_limits(dial: Connect) -> None:
    answer = dial().hello()

    assert (answer["version"], answer["server"]) == (1, f"Headrace {__version__}")
    limits = answer["limits"]
    assert (limits["frame_max"], limits["max_message"]) == (64 << 20, 16 << 20)
    assert (limits["heartbeat"], limits["channel_max"], limits["batch_max"]) == (60, 2047, 8192)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"password": "wrong"}, "login_refused"),
        ({"user": "nobody"}, "login_refused"),
        ({"vhost": "/none"}, "not_allowed"),
        ({"version": 2}, "not_implemented"),
        ({"version": "1"}, "protocol"),
        ({"user": None}, "protocol"),
        ({"password": 7}, "protocol"),
    ],
)
def test_a_hello_that_is_refused_ends_the_connection(
    dial: Connect, fields: dict[str, Any], code: str
) -> None:
    client = dial()

    with pytest.raises(Refused) as refused:
        client.hello(**fields)
    assert (refused.value.code, refused.value.answer["closed"]) == (code, True)
    assert client.expect_end() == []


@pytest.mark.parametrize("kind", [PING, QUEUE_DECLARE, 0x77])
def test_the_first_frame_must_be_a_hello(dial: Connect, kind: int) -> None:
    client = dial()
    client.request(kind)

    (last,) = client.expect_end()
    assert (last["code"], last["rid"], last["closed"]) == ("protocol", None, True)


def test_a_second_hello_is_one_too_many(client: Native) -> None:
    with pytest.raises(Refused) as refused:
        client.hello()
    assert refused.value.code == "protocol"
    client.expect_end()


def test_requests_may_be_sent_right_after_the_hello(dial: Connect) -> None:
    client = dial()
    known = {"version": 1, "user": "guest", "password": "guest"}
    client.send(
        request_frame(HELLO, {"rid": "a", **known})
        + request_frame(CHANNEL_OPEN, {"rid": "b", "ch": "x"})
        + request_frame(PING, {"rid": "c"})
    )

    assert [client.read()[1]["rid"] for _ in range(3)] == ["a", "b", "c"]


def test_a_ping_is_answered_on_any_channel_and_none(client: Native) -> None:
    assert client.call(PING, None)["ch"] is None
    assert client.call(PING, 99)["ch"] == 99


def test_a_channel_is_opened_and_closed(client: Native) -> None:
    client.call(CHANNEL_OPEN, "second")
    client.call(CHANNEL_CLOSE, "second")

    with pytest.raises(Refused, match="channel second is not open") as refused:
        client.call(QUEUE_DECLARE, "second", name="")
    assert refused.value.code == "not_allowed"
    client.call(CHANNEL_OPEN, "second")


def test_a_channel_that_is_open_cannot_be_opened(client: Native) -> None:
    with pytest.raises(Refused, match="open already"):
        client.call(CHANNEL_OPEN)
    client.call(PING)


def test_channels_have_a_limit(start_broker: StartBroker, dial: Connect) -> None:
    client = dial(start_broker("--channel-max", "2")).open()
    client.call(CHANNEL_OPEN, 2)

    with pytest.raises(Refused, match="limit") as refused:
        client.call(CHANNEL_OPEN, 3)
    assert refused.value.code == "not_allowed"


def test_a_connection_without_hello_is_closed(start_broker: StartBroker, dial: Connect) -> None:
    impatient = start_broker(env={"HEADRACE_HANDSHAKE_TIMEOUT": "0.5"})
    for said in (b"", b"\0\0\0\x0d", request_frame(HELLO, {"rid": 1})[:-1]):
        client = dial(impatient)
        client.send(said)
        assert client.expect_end() == []


def test_a_silent_connection_is_closed_a_pinging_one_is_not(
    start_broker: StartBroker, dial: Connect
) -> None:
    broker = start_broker("--heartbeat", "1")
    silent, lively = dial(broker).open(), dial(broker).open()
    for _ in range(40):
        lively.call(PING)
        try:
            silent.read(limit=0.1)
        except NothingCame:
            continue
        except Exception as error:
            assert type(error).__name__ == "SocketEnded"
            break
    else:
        raise AssertionError("the silent connection is still there")
    lively.call(PING)


def test_a_stop_of_the_broker_is_logged(start_broker: StartBroker, dial: Connect) -> None:
    broker = start_broker()
    client = dial(broker).open()
    broker.stop()

    (goodbye,) = client.expect_end()
    assert (goodbye["rid"], goodbye["code"]) == (None, "connection_forced")


def test_without_the_listener_the_port_is_closed(start_broker: StartBroker) -> None:
    assert "native" not in start_broker("--no-native").ports
