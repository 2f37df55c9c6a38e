"""Connections: greeting, login, tuning, heartbeats, virtual hosts and the end."""

import time
from typing import Any

import pika
import pytest
from pika.exceptions import ProbableAuthenticationError

from support.amqp_codec import HEARTBEAT, Method, plain, short_string, value_bytes
from support.amqp_types import Connect, RawClient, RawConnect
from support.raw_amqp import CAPABILITIES, ConnectionClosed, SocketEnded

CAPABILITIES_OF_THE_BROKER = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
]


# -- greeting


def test_broker_greets_with_its_version_mechanisms_and_locale(raw_socket: RawConnect) -> None:
    start = raw_socket().start()

    assert (start.major, start.minor) == (0, 9)
    assert set(start.mechanisms.split()) >= {"PLAIN", "AMQPLAIN"}
    assert "en_US" in start.locales.split()


@pytest.mark.parametrize("capability", CAPABILITIES_OF_THE_BROKER)
def test_broker_announces_capability(raw_socket: RawConnect, capability: str) -> None:
    start = raw_socket().start()

    assert plain(start.properties["capabilities"])[capability] is True


@pytest.mark.parametrize("key", ["product", "version", "platform", "cluster_name"])
def test_the_broker_sends_its_server_properties(raw_socket: RawConnect, key: str) -> None:
    start = raw_socket().start()

    assert plain(start.properties[key])


# -- login


def test_amqplain_login_works(raw_socket: RawConnect) -> None:
    client = raw_socket()
    client.start()
    response = b"".join(short_string(key) + value_bytes("guest") for key in ("LOGIN", "PASSWORD"))
    client.send_method(
        0, "connection.start-ok", mechanism="AMQPLAIN", response=response, locale="en_US"
    )

    assert client.read_method(0).name == "connection.tune"


def test_a_wrong_password_is_a_connection_close_for_a_capable_client(
    raw_socket: RawConnect,
) -> None:
    client = raw_socket()
    client.start()
    client.login(password="wrong")

    close = client.expect_close(403)
    assert close.text.startswith("ACCESS_REFUSED - Login was refused using authentication")
    assert (close.class_id, close.method_id) == (0, 0)


def test_an_unknown_user_gets_the_same_answer(raw_socket: RawConnect) -> None:
    client = raw_socket()
    client.start()
    client.login(user="nobody-of-that-name")

    client.expect_close(403)


def test_wrong_password_without_the_capability_drops_the_socket(
    raw_socket: RawConnect,
) -> None:
    client = raw_socket()
    client.start()
    client.login(password="wrong", properties={})

    with pytest.raises(SocketEnded):
        client.read_method(0)


def test_unknown_mechanism_drops_the_socket(raw_socket: RawConnect) -> None:
    client = raw_socket()
    client.start()
    client.send_method(0, "connection.start-ok", mechanism="NO-SUCH", response=b"")

    _assert_refused(client)


def test_malformed_plain_response_is_refused(raw_socket: RawConnect) -> None:
    client = raw_socket()
    client.start()
    client.send_method(
        0,
        "connection.start-ok",
        properties={"capabilities": CAPABILITIES},
        mechanism="PLAIN",
        response=b"no separators",
        locale="en_US",
    )

    _assert_refused(client)


def test_client_library_sees_a_wrong_password(connect: Connect) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(credentials=pika.PlainCredentials("guest", "wrong"))


# -- tuning


def test_broker_proposes_2047_channels_128_kib_and_60_seconds(raw_socket: RawConnect) -> None:
    tune = _tune(raw_socket())

    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.parametrize(
    "answer",
    [
        {"channel_max": 2048},
        {"frame_max": 131073},
        {"frame_max": 4095},
    ],
    ids=str,
)
def test_tune_ok_beyond_the_proposal_is_refused(
    raw_socket: RawConnect, answer: dict[str, int]
) -> None:
    client = raw_socket()
    _tune(client)
    values = {"channel_max": 2047, "frame_max": 131072, "heartbeat": 0, **answer}
    client.send_method(0, "connection.tune-ok", **values)
    client.send_method(0, "connection.open", vhost="/")

    _assert_refused(client)


@pytest.mark.parametrize(
    "answer",
    [{"channel_max": 1}, {"frame_max": 4096}, {"heartbeat": 0}, {"heartbeat": 3600}],
    ids=str,
)
def test_tune_ok_within_the_proposal_is_accepted(raw: RawConnect, answer: dict[str, int]) -> None:
    raw(**answer).open_channel()


def test_tune_ok_without_limits_means_those_of_the_broker(raw: RawConnect) -> None:
    """The specification has 0 for no limit; RabbitMQ hangs up."""
    client = raw(channel_max=0, frame_max=0, heartbeat=0)
    client.open_channel(1)
    for number in range(2, 2049):
        client.send_method(number, "channel.open")

    client.expect_close(530)


# -- heartbeats


def test_broker_sends_heartbeats_on_a_quiet_connection(raw: RawConnect) -> None:
    client = raw(heartbeat=1)

    beat = client.read_frame(limit=30)
    assert (beat.kind, beat.channel, beat.payload) == (HEARTBEAT, 0, b"")


def test_silent_client_is_dropped(raw: RawConnect) -> None:
    client = raw(heartbeat=1)
    began = time.monotonic()

    client.expect_end(limit=30)
    # Two intervals must have passed without a sound.
    assert time.monotonic() - began > 1.5


@pytest.mark.parametrize("sound", ["heartbeat", "method"])
def test_client_which_makes_any_sound_is_kept(raw: RawConnect, sound: str) -> None:
    client = raw(heartbeat=1)
    channel = client.open_channel()
    ends = time.monotonic() + 3.3
    while time.monotonic() < ends:
        if sound == "heartbeat":
            client.send_frame(HEARTBEAT, 0, b"")
        else:
            channel.round_trip()
        client.read_frame(limit=30)

    channel.round_trip()


def test_heartbeat_zero_means_none(raw: RawConnect) -> None:
    client = raw(heartbeat=0)
    client.send_frame(HEARTBEAT, 0, b"")

    client.open_channel()


# -- virtual hosts


def test_unknown_vhost_is_refused(raw: RawConnect) -> None:
    with pytest.raises(ConnectionClosed) as caught:
        raw(vhost="no-such-vhost")

    close = caught.value.close
    assert (close.code, close.class_id, close.method_id) == (530, 10, 40)
    assert close.text == "NOT_ALLOWED - vhost no-such-vhost not found"


def test_empty_vhost_name_is_not_the_default(raw: RawConnect) -> None:
    with pytest.raises(ConnectionClosed) as caught:
        raw(vhost="")

    assert caught.value.code == 530


# -- the end


def test_close_is_answered(raw: RawConnect) -> None:
    client = raw()
    client.send_method(0, "connection.close", code=200, text="bye")

    assert client.read_method(0).name == "connection.close-ok"


def test_close_with_open_channels_is_answered(raw: RawConnect, queue: str) -> None:
    client = raw()
    client.open_channel(1).call("basic.consume", queue=queue)
    client.open_channel(2)
    client.send_method(0, "connection.close", code=200)

    assert client.read_method(0).name == "connection.close-ok"


def test_everything_after_the_broker_s_close_is_ignored(raw: RawConnect, queue: str) -> None:
    client = raw()
    channel = client.open_channel()
    channel.send("channel.flow", active=False)
    channel.publish("", queue, b"ignored")
    with pytest.raises(ConnectionClosed):
        channel.read()
    channel.publish("", queue, b"ignored too")
    client.send_method(0, "connection.close-ok")

    client.expect_end()
    assert raw().open_channel().get(queue) is None


def test_close_which_crosses_the_broker_s_is_answered(raw: RawConnect) -> None:
    client = raw()
    channel = client.open_channel()
    channel.send("channel.flow", active=False)
    with pytest.raises(ConnectionClosed):
        channel.read()
    client.send_method(0, "connection.close", code=200)

    assert client.read_method(0).name == "connection.close-ok"


def test_client_properties_of_any_shape_are_accepted(raw: RawConnect) -> None:
    properties: dict[str, Any] = {
        "connection_name": "named",
        "nested": {"deep": [1, 2.5, None, True]},
        "capabilities": CAPABILITIES,
    }

    raw(properties=properties).open_channel()


def _tune(client: RawClient) -> Method:
    client.start()
    client.login()
    tune = client.read_method(0)
    assert tune.name == "connection.tune"
    return tune


def _assert_refused(client: RawClient) -> None:
    """The socket must end, with or without a close before; never an open connection."""
    with pytest.raises((SocketEnded, ConnectionClosed)):
        client.read_method(0)
