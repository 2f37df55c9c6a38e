"""Hostile and clumsy clients: whatever they do, everybody else is served as before."""

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import wait_for
from support.amqp_codec import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    frame,
    header_payload,
    long_string,
    method_payload,
    short_string,
)
from support.amqp_types import Namer, RawChannel, RawClient, RawConnect
from support.brokers import Broker
from support.raw_amqp import Closed, NothingCame, SocketEnded

MEBIBYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def unharmed(raw: RawConnect, name: Namer) -> Iterator[None]:
    """After each attack an ordinary publish and get on another connection must work."""
    yield
    channel = raw().open_channel()
    queue = name()
    channel.call("queue.declare", queue=queue)
    channel.publish("", queue, b"still here")
    assert channel.get(queue).body == b"still here"


@pytest.fixture
def memory(broker: Broker) -> Iterator[None]:
    """The broker's resident memory must not grow by more than 50 MB in the test."""
    before = _resident(broker.pid)
    yield
    assert _resident(broker.pid) - before < 50 * MEBIBYTE


def _resident(pid: int | None) -> int:
    if pid is None:
        return 0
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def _assert_ended(client: RawClient, limit: float = 8) -> None:
    """The connection must end, by whatever code or none."""
    with pytest.raises((Closed, SocketEnded)):
        while True:
            client.read_method(limit=limit)


# -- other protocols


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        bytes(range(256)) * 40,
        b"AMQP\x00\x00\x09\x01" + b"\xff" * 1000,
        b"\x00" * 4096,
        b"\xff" * 4096,
    ],
    ids=["http", "tls", "garbage", "garbage after the header", "zeros", "ones"],
)
def test_foreign_bytes_end_in_a_hang_up(raw_socket: RawConnect, greeting: bytes) -> None:
    client = raw_socket()
    client.send(greeting)

    client.expect_end(limit=12)


# -- lies about sizes (RabbitMQ grants old clients the 8 bytes around the payload as well)


@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 131073])
def test_frame_which_claims_too_much_is_refused_at_once(
    raw_channel: RawChannel, memory: None, size: int
) -> None:
    raw_channel.client.send(struct.pack(">BHI", METHOD, 1, size))

    raw_channel.client.expect_close(501)


def test_frame_above_the_limit_agreed_is_refused(raw: RawConnect, queue: str) -> None:
    client = raw(frame_max=4096)
    channel = client.open_channel()
    channel.send("basic.publish", routing_key=queue)
    client.send(frame(HEADER, 1, header_payload(8000, {})))
    client.send(struct.pack(">BHI", BODY, 1, 4097))

    client.expect_close(501)


@pytest.mark.usefixtures("headrace_only")
@pytest.mark.parametrize("size", [4089, 131064, 2**32 - 1])
def test_frame_above_4096_bytes_before_tuning_is_refused(raw_socket: RawConnect, size: int) -> None:
    client = raw_socket()
    client.start()
    client.send(struct.pack(">BHI", METHOD, 0, size))

    _assert_ended(client)


@pytest.mark.usefixtures("headrace_only", "memory")
@pytest.mark.parametrize("size", [2**60, 2**63, 2**64 - 1], ids=hex)
def test_content_which_claims_an_exbibyte_is_refused(
    raw_channel: RawChannel, queue: str, size: int
) -> None:
    raw_channel.send("basic.publish", routing_key=queue)
    raw_channel.client.send(frame(HEADER, 1, header_payload(size, {})))

    with pytest.raises(Closed) as caught:
        raw_channel.read()
    assert caught.value.code in (406, 501, 506)


@pytest.mark.usefixtures("memory")
def test_half_bodies_on_two_thousand_channels_are_bounded(raw: RawConnect, queue: str) -> None:
    client = raw()
    publish = method_payload("basic.publish", routing_key=queue)
    header = header_payload(100_000, {})
    opening = b"".join(
        frame(METHOD, number, method_payload("channel.open")) for number in range(1, 2001)
    )
    client.send(opening)
    for number in range(1, 2001):
        assert client.read_method(number).name == "channel.open-ok"
    for number in range(1, 2001):
        client.send(
            frame(METHOD, number, publish)
            + frame(HEADER, number, header)
            + frame(BODY, number, b"half")
        )

    assert raw().open_channel().get(queue) is None
    client.cut()


@pytest.mark.usefixtures("headrace_only", "memory")
@pytest.mark.parametrize("code", [b"F", b"A"], ids=["tables", "arrays"])
def test_tables_nested_ten_thousand_deep_are_no_harm(
    raw: RawConnect, queue: str, code: bytes
) -> None:
    # 10,000 levels of 7 bytes fit into one frame.
    body = _nested(code, 10_000)
    assert len(body) < 120_000
    as_argument, as_header = raw().open_channel(), raw().open_channel()
    as_argument.send("queue.declare", queue="", exclusive=True, arguments=body)
    _assert_answer_or_close(as_argument)

    as_header.publish("", queue, b"x", {"headers": body})
    _assert_answer_or_close(as_header)


@pytest.mark.usefixtures("headrace_only")
def test_deeply_nested_headers_are_no_harm_where_they_are_read(
    raw: RawConnect, name: Namer
) -> None:
    exchange, queue = name("headers"), name()
    channel = raw().open_channel()
    channel.call("exchange.declare", exchange=exchange, type="headers")
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange=exchange, arguments={"a": 1})
    channel.publish(exchange, "", b"x", {"headers": _nested(b"F", 10_000)})

    _assert_answer_or_close(channel)


def _nested(code: bytes, depth: int) -> bytes:
    """A table body with one value, nested `depth` times."""
    key = short_string("k") if code == b"F" else b""
    inner = b""
    for _ in range(depth):
        inner = key + code + long_string(inner)
    return inner if code == b"F" else short_string("k") + inner


def _assert_answer_or_close(channel: RawChannel) -> None:
    """The broker may take it or refuse it; it may not fall silent."""
    channel.send("channel.flow", active=True)
    try:
        while channel.read(limit=8).name != "channel.flow-ok":
            pass
    except (Closed, SocketEnded):
        pass


# -- bytes which are no text


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue.declare", {"queue": b"\xff\xfe\x80", "exclusive": True}),
        ("exchange.declare", {"exchange": b"\xff\xfe\x80", "type": "no-type", "passive": True}),
        ("queue.bind", {"queue": "q", "exchange": "amq.topic", "routing_key": b"\xc3"}),
        ("basic.consume", {"queue": b"\xc3\x28", "consumer_tag": b"\xff"}),
    ],
    ids=["queue", "exchange", "binding", "consumer"],
)
def test_name_which_is_no_text_is_a_frame_error(
    raw_channel: RawChannel, method: str, arguments: dict[str, Any]
) -> None:
    raw_channel.send(method, **arguments)

    close = raw_channel.client.expect_close(501)
    assert close.text == "FRAME_ERROR - Malformed UTF-8 in shortstr"


def test_name_with_control_characters_is_taken(raw_channel: RawChannel) -> None:
    raw_channel.send("queue.declare", queue=b"new\nline\0nul", exclusive=True)

    _assert_answer_or_close(raw_channel)


def test_header_which_is_no_text_is_delivered(raw_channel: RawChannel, queue: str) -> None:
    headers = short_string(b"\xff\xfe") + b"S" + long_string(b"\x80\xff")
    raw_channel.publish("", queue, b"x", {"headers": headers})

    assert long_string(headers) in raw_channel.get(queue).content.raw_properties


def test_routing_key_which_is_no_text_is_delivered(
    raw_channel: RawChannel, name: Namer, queue: str
) -> None:
    exchange = name("topic")
    raw_channel.call("exchange.declare", exchange=exchange, type="topic")
    raw_channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="#")
    raw_channel.client.send(
        frame(METHOD, 1, method_payload("basic.publish", exchange=exchange, routing_key=b"\xff"))
        + frame(HEADER, 1, header_payload(0, {}))
    )

    assert raw_channel.get(queue).routing_key == "\udcff"


# -- slow and silent clients


@pytest.mark.usefixtures("headrace_only")
@pytest.mark.parametrize("said", [b"", b"AM", PROTOCOL_HEADER], ids=["nothing", "half", "header"])
def test_handshake_which_is_never_finished_is_ended(
    start_broker: Any,  # noqa: ANN401 - a protocol of tests/conftest.py
    said: bytes,
) -> None:
    impatient = start_broker(env={"HEADRACE_HANDSHAKE_TIMEOUT": "1"})
    client = RawClient((impatient.host, impatient.amqp_port))
    client.send(said)

    client.expect_end(limit=5)
    client.close()


@pytest.mark.usefixtures("headrace_only")
def test_handshake_dripping_in_byte_by_byte_is_ended(start_broker: Any) -> None:  # noqa: ANN401
    impatient = start_broker(env={"HEADRACE_HANDSHAKE_TIMEOUT": "1"})
    client = RawClient((impatient.host, impatient.amqp_port))
    client.start()
    stop = threading.Event()

    def drip() -> None:
        for byte in frame(METHOD, 0, bytes(4000)):
            if stop.wait(0.02):
                return
            try:
                client.send(bytes([byte]))
            except OSError:
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        client.expect_end(limit=5)
    finally:
        stop.set()
        dripping.join()
        client.close()


def test_a_consumer_that_never_reads_does_not_block_others(
    raw: RawConnect, raw_socket: RawConnect, name: Namer
) -> None:
    stuck_queue, queue = name(), name()
    stuck = raw_socket(receive_buffer=4096).handshake().open_channel()
    lively, writer = raw().open_channel(), raw().open_channel()
    for each in (stuck_queue, queue):
        writer.call("queue.declare", queue=each)
    stuck.call("basic.consume", queue=stuck_queue, no_ack=True)
    lively.call("basic.consume", queue=queue, no_ack=True)

    for number in range(200):
        writer.publish("", stuck_queue, bytes(100_000))
        writer.publish("", queue, str(number).encode())
    assert [lively.read().body for _ in range(200)] == [b"%d" % n for n in range(200)]
    stuck.client.cut()


def test_consumer_which_never_reads_shares_a_queue_without_harm(
    raw: RawConnect, raw_socket: RawConnect, queue: str
) -> None:
    stuck = raw_socket(receive_buffer=4096).handshake().open_channel()
    lively, writer = raw().open_channel(), raw().open_channel()
    stuck.call("basic.qos", prefetch_count=5)
    stuck.call("basic.consume", queue=queue)
    lively.call("basic.consume", queue=queue, no_ack=True)
    for _ in range(50):
        writer.publish("", queue, bytes(10_000))

    for _ in range(45):
        assert lively.read().name == "basic.deliver"
    stuck.client.cut()
    assert [lively.read().redelivered for _ in range(5)] == [True] * 5


# -- cut connections


@pytest.mark.parametrize("part", ["method", "header", "body"])
def test_cut_in_the_middle_of_a_frame_returns_what_was_held(
    raw: RawConnect, queue: str, part: str
) -> None:
    watcher, client = raw().open_channel(), raw()
    victim = client.open_channel()
    for body in (b"1", b"2"):
        watcher.publish("", queue, body)
    victim.get_soon(queue, no_ack=False)
    victim.get_soon(queue, no_ack=False)
    whole = victim.publish_bytes("", queue, b"never finished")
    ends = {"method": 9, "header": len(whole) - 30, "body": len(whole) - 4}
    client.send(whole[: ends[part]])
    client.cut()

    got = [watcher.get_soon(queue) for _ in range(2)]
    assert [(each.body, each.redelivered) for each in got] == [(b"1", True), (b"2", True)]
    assert watcher.get(queue) is None


def test_hundreds_of_connections_cut_at_once_leave_nothing_behind(
    raw: RawConnect, amqp_address: tuple[str, int], queue: str
) -> None:
    clients = [RawClient(amqp_address).handshake() for _ in range(100)]
    for client in clients:
        client.open_channel().call("basic.consume", queue=queue)
    watcher = raw().open_channel()
    for client in clients:
        client.cut()

    def consumers() -> int:
        answer = watcher.call("queue.declare", queue=queue, passive=True)
        return int(answer.consumer_count)

    wait_for(lambda: consumers() == 0)


# -- channels in masses


def test_hundreds_of_channels_are_opened_used_and_closed(raw: RawConnect, queue: str) -> None:
    client = raw()
    for _ in range(3):
        channels = [client.open_channel(number) for number in range(1, 301)]
        for channel in channels:
            channel.publish("", queue, b"x")
        for channel in channels:
            assert channel.call("channel.close").name == "channel.close-ok"
    reader = client.open_channel()

    assert reader.call("queue.purge", queue=queue).message_count == 900


def test_one_number_is_opened_and_closed_hundreds_of_times(
    raw_channel: RawChannel, queue: str
) -> None:
    for _ in range(300):
        raw_channel.send("basic.consume", queue=queue, nowait=True, consumer_tag="same")
        assert raw_channel.call("channel.close").name == "channel.close-ok"
        assert raw_channel.call("channel.open").name == "channel.open-ok"

    answer = raw_channel.call("queue.declare", queue=queue, passive=True)
    assert answer.consumer_count == 0


def test_pile_of_refusals_on_one_connection_is_answered_one_by_one(
    raw_channel: RawChannel, name: Namer
) -> None:
    missing = name()
    for _ in range(200):
        raw_channel.send("queue.purge", queue=missing)
        raw_channel.expect_close(404)
        raw_channel.call("channel.open")


@pytest.mark.usefixtures("memory")
def test_unread_answers_do_not_disturb_the_broker(raw_socket: RawConnect, queue: str) -> None:
    client = raw_socket(receive_buffer=4096).handshake()
    client.open_channel()
    client.socket.settimeout(1)
    question = frame(METHOD, 1, method_payload("queue.declare", queue=queue, passive=True))
    try:
        for _ in range(200):
            client.send(question * 500)
    except TimeoutError:
        pass  # the broker stopped reading, which is the best it can do
    client.is_open = False
    client.cut()


def test_connection_which_hangs_up_after_each_step_is_no_harm(
    raw_socket: RawConnect, raw: RawConnect
) -> None:
    raw_socket().socket.close()
    client = raw_socket()
    client.start()
    client.cut()
    client = raw_socket()
    client.start()
    client.login()
    client.cut()
    raw().cut()
    client = raw()
    client.open_channel()
    client.send_method(1, "queue.declare", queue="", exclusive=True)
    client.cut()


def test_idle_connections_do_not_keep_others_out(
    amqp_address: tuple[str, int], raw: RawConnect
) -> None:
    idle = [RawClient(amqp_address) for _ in range(30)]
    try:
        raw().open_channel()
    except NothingCame:
        pytest.fail("thirty silent sockets were enough to lock everybody out")
    finally:
        for client in idle:
            client.socket.close()
