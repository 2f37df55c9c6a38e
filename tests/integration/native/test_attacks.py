"""Whatever a peer sends: it is told, or sent away; the broker serves the others as ever."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from headrace.testing import wait_for
from support.native_types import Connect, Namer, StartBroker
from support.raw_native import (
    ACK,
    BIND,
    CHANNEL_OPEN,
    CONSUME,
    EXCHANGE_DECLARE,
    HELLO,
    LIST,
    NACK,
    PING,
    PUBLISH,
    PUSH,
    QOS,
    QUEUE_DECLARE,
    Native,
    SocketEnded,
    payload_frame,
    request_frame,
)

pytestmark = pytest.mark.usefixtures("alive")


def farewell(client: Native) -> dict[str, Any]:
    """The last answer before the end."""
    return client.expect_end()[-1]


@pytest.mark.parametrize("length", [-1, -(2**31), (64 << 20) + 1, 2**31 - 1])
def test_impossible_lengths_end_the_connection(client: Native, length: int) -> None:
    client.send(struct.pack(">ii", PING, length))

    last = farewell(client)
    assert (last["code"], last["rid"], last["closed"]) == ("frame", None, True)


@pytest.mark.parametrize("kind", [LIST, QUEUE_DECLARE, ACK, 0x7F])
def test_frames_without_messages_are_small(client: Native, kind: int) -> None:
    client.send(struct.pack(">ii", kind, (1 << 16) + 1))

    assert farewell(client)["text"] == "a frame of 65537 bytes; 0 to 65536 are allowed"


def test_a_frame_of_empty_maps_is_refused_before_they_are_built(client: Native) -> None:
    rows = (b"\xdc\x20\x00" + b"\x80" * 8192) * 64
    client.send(payload_frame(PUBLISH, b"\x82\xa3rid\x01\xa5batch\xdc\x00\x40" + rows))

    assert "more than 262144 values" in farewell(client)["text"]


def test_before_the_hello_frames_are_small(dial: Connect) -> None:
    client = dial()
    client.send(struct.pack(">ii", HELLO, (1 << 16) + 1))

    assert farewell(client)["code"] == "frame"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="no msgpack"),
        pytest.param(b"\x93\x01\x02\x03", id="array"),
        pytest.param(b"\x80", id="no rid"),
        pytest.param(b"\x81\xa3rid\xc0", id="rid nil"),
        pytest.param(b"\x81\xa3rid\xca\0\0\0\0", id="rid float"),
        pytest.param(b"\x82\xa3rid\x01\xa2ch\x90", id="ch array"),
        pytest.param(b"\x81\xa3rid\x01\xff", id="trailing byte"),
        pytest.param(b"\x81\xa3rid\xdd\xff\xff\xff\xff", id="huge array"),
        pytest.param(b"\x81\xa3rid" + b"\xdc\xff\xff" * 500, id="arrays in arrays"),
        pytest.param(b"\x81\xa3rid" + b"\x91" * 60_000, id="deep"),
        pytest.param(b"\x81\xa3rid\xd4\x05\x00", id="extension"),
        pytest.param(b"\x81\xa3rid\xa2\xff\xfe", id="not UTF-8"),
        pytest.param(b"\x80\x04\x95\x0b\x00\x00\x00\x8c\x02os\x94\x8c\x06system", id="pickle"),
    ],
)
def test_malformed_payloads_end_the_connection(client: Native, payload: bytes) -> None:
    client.send(payload_frame(PING, payload))

    last = farewell(client)
    assert (last["ok"], last["code"], last["closed"]) == (False, "protocol", True)


@pytest.mark.parametrize("kind", [0, -1, 0x15, 0x1F, 0x2A, 0x34, 0x7FFFFFFF, PUSH])
def test_unknown_types_end_the_connection(client: Native, kind: int) -> None:
    client.send(request_frame(kind, {"rid": 5, "ch": 1}))

    last = farewell(client)
    assert (last["rid"], last["ch"], last["code"]) == (5, 1, "protocol")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (QUEUE_DECLARE, {"name": 1}),
        (QUEUE_DECLARE, {"name": "q", "durable": 1}),
        (QUEUE_DECLARE, {"name": "q", "arguments": []}),
        (EXCHANGE_DECLARE, {}),
        (EXCHANGE_DECLARE, {"name": "x", "type": None, "internal": "no"}),
        (BIND, {"source": "amq.direct"}),
        (BIND, {"source": "amq.direct", "queue": "a", "exchange": "b"}),
        (BIND, {"source": "amq.direct", "queue": "a", "key": "k" * 256}),
        (PUBLISH, {"exchange": "", "key": "q"}),
        (PUBLISH, {"exchange": "", "key": "q", "body": "text"}),
        (PUBLISH, {"exchange": "", "body": b""}),
        (PUBLISH, {"exchange": "", "key": "k" * 256, "body": b""}),
        (PUBLISH, {"exchange": "", "key": "q", "body": b"", "properties": [1]}),
        (PUBLISH, {"batch": {}}),
        (PUBLISH, {"batch": [1]}),
        (CONSUME, {"queue": 5}),
        (CONSUME, {"queue": "q", "consumer_tag": "t" * 256}),
        (ACK, {}),
        (ACK, {"tag": -1}),
        (ACK, {"tag": "1"}),
        (ACK, {"message_id": "m"}),
        (NACK, {"tag": 1, "requeue": "yes"}),
        (QOS, {"prefetch": -1}),
        (LIST, {"kind": "queues", "page": -1}),
    ],
)
def test_wrong_fields_end_the_connection(client: Native, kind: int, fields: dict[str, Any]) -> None:
    client.send(request_frame(kind, {"rid": 5, "ch": 1, **fields}))

    assert (farewell(client)["rid"], client.pushed) == (5, [])


def test_a_missing_channel_field_ends_the_connection(client: Native) -> None:
    client.send(request_frame(QUEUE_DECLARE, {"rid": 1, "name": ""}))

    assert farewell(client)["code"] == "protocol"


def test_what_was_done_before_the_fault_is_answered(client: Native) -> None:
    client.send(request_frame(PING, {"rid": 1}) * 3 + b"\xff" * 8 + request_frame(PING, {"rid": 2}))

    assert [one["rid"] for one in client.expect_end()] == [1, 1, 1, None]


def test_half_a_frame_disturbs_no_other_connection(dial: Connect) -> None:
    whole = request_frame(HELLO, {"rid": 1, "version": 1, "user": "guest", "password": "guest"})
    for size in range(0, len(whole), 7):
        client = dial()
        client.send(whole[:size])
        client.close()


def test_an_announced_frame_that_never_comes_takes_no_memory(client: Native) -> None:
    client.send(struct.pack(">ii", PUBLISH, 64 << 20) + b"x" * 100)
    client.close()


def test_a_frame_may_come_byte_by_byte(dial: Connect) -> None:
    client = dial()
    fields = {"rid": 1, "version": 1, "user": "guest", "password": "guest"}
    for byte in request_frame(HELLO, fields):
        client.send(bytes([byte]))

    assert client.answer(1)["ok"] is True


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\0\x09\x01", b"\x16\x03\x01\x02\0\x01\0\x01"]
)
def test_other_protocols_are_sent_away(dial: Connect, greeting: bytes) -> None:
    client = dial()
    client.send(greeting)

    assert farewell(client)["ok"] is False


@pytest.mark.parametrize("seed", range(30))
def test_noise_is_survived(dial: Connect, seed: int) -> None:
    noise = random.Random(seed)
    client = dial()
    if seed % 2:
        client.open()
    try:
        for _ in range(20):
            client.send(_noise(noise))
        client.close()
    except OSError:
        pass  # it has hung up already, and may


def _noise(noise: random.Random) -> bytes:
    kind = noise.choice([noise.randrange(0, 0x40), noise.randrange(-(2**31), 2**31)])
    whole = request_frame(kind, _fields(noise))
    shape = noise.randrange(4)
    if shape == 0:
        return payload_frame(kind, noise.randbytes(noise.randrange(200)))
    if shape == 1:
        where = noise.randrange(len(whole))
        return whole[:where] + noise.randbytes(1) + whole[where + 1 :]
    return whole if shape == 2 else noise.randbytes(noise.randrange(1, 300))


def _fields(noise: random.Random) -> dict[str, Any]:
    names = [
        "ch",
        "name",
        "type",
        "durable",
        "exclusive",
        "arguments",
        "queue",
        "exchange",
        "source",
        "key",
        "properties",
        "body",
        "batch",
        "tag",
        "multiple",
        "requeue",
        "prefetch",
        "kind",
        "page",
        "consumer_tag",
        "message_id",
        "auto_ack",
    ]
    values: list[Any] = [None, 1, -1, 0, True, "", "noise", b"x", [], {}, [{}], {"a": [None]}, 1.5]
    chosen = {name: noise.choice(values) for name in noise.sample(names, 8)}
    return {"rid": noise.choice([1, "r", None]), "ch": 1} | chosen


def test_a_flood_of_requests_is_answered_in_order(client: Native) -> None:
    client.send(b"".join(request_frame(PING, {"rid": 1000 + i}) for i in range(20_000)))

    assert [client.read()[1]["rid"] for _ in range(20_000)] == list(range(1000, 21_000))


def test_a_client_that_never_reads_does_not_block_others(connect: Connect, name: Namer) -> None:
    stuck = connect(receive_buffer=4096)
    lively = connect()
    stuck_queue, queue = lively.queue(name()), lively.queue(name())
    stuck.call(CONSUME, queue=stuck_queue, auto_ack=True)
    lively.call(CONSUME, queue=queue, auto_ack=True)
    for number in range(200):
        lively.publish("", stuck_queue, bytes(100_000))
        lively.publish("", queue, b"%d" % number)

    assert [one["body"] for one in lively.deliveries(200)] == [b"%d" % n for n in range(200)]
    stuck.close()


def test_stalled_connections_are_closed_and_their_messages_requeued(
    start_broker: StartBroker, dial: Connect, name: Namer
) -> None:
    broker = start_broker("--heartbeat", "1")
    lively = dial(broker).open()
    queue = lively.queue(name())
    for _ in range(100):
        lively.publish("", queue, bytes(100_000))
    asleep = dial(broker, receive_buffer=4096).open()  # holds messages, and reads no more
    asleep.call(CONSUME, queue=queue, auto_ack=False)
    halfway = dial(broker).open()  # stops in the middle of a frame
    halfway.send(struct.pack(">ii", PUBLISH, 1000) + b"x" * 500)

    def is_over() -> bool:
        lively.call(PING)
        rows = [row for row in lively.rows("queues") if row["name"] == queue]
        return [(row["consumers"], row["messages"]) for row in rows] == [(0, 100)]

    wait_for(is_over, timeout=20)
    assert halfway.expect_end() == []
    lively.call(CONSUME, queue=queue, auto_ack=True)
    assert len(lively.deliveries(100)) == 100


def test_silent_sockets_of_one_address_make_room_for_the_next(
    start_broker: StartBroker, dial: Connect
) -> None:
    broker = start_broker("--max-unauthenticated-per-address", "3")
    silent = [dial(broker) for _ in range(3)]
    dial(broker).hello()
    with pytest.raises((SocketEnded, OSError)):
        silent[0].hello()
    silent[2].hello()


def test_channels_of_any_kind_of_name(client: Native) -> None:
    for number in (0, -5, 2**63, "", "x" * 255):
        client.call(CHANNEL_OPEN, number)
