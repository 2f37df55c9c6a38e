"""Push frames put together from pieces say what packed maps would say."""

from __future__ import annotations

from typing import Any

import msgpack

from headrace.wire.amqp.content import make_content, make_frames
from headrace.wire.amqp.properties import HeaderTable, Properties
from headrace.wire.native import deliveries
from headrace.wire.native.properties import encode_properties

PIECES = deliveries.PackedProperties()


def entry(content: bytes, tag: int = 1, *, redelivered: bool = False) -> bytes:
    packed, name, body = PIECES.split(content)
    shared = deliveries.common("x", "k", "q", redelivered=redelivered)
    return deliveries.entry(shared, packed, name or "M-1", body, tag)


def decoded(data: bytes) -> dict[str, Any]:
    kind, length = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
    assert (kind, length) == (0x0C, len(data) - 8)
    found: dict[str, Any] = msgpack.unpackb(data[8:])
    return found


def shown(body: bytes, tag: int, **properties: object) -> dict[str, object]:
    return {
        "redelivered": False,
        "exchange": "x",
        "key": "k",
        "queue": "q",
        "properties": {
            "delivery_mode": 1,
            "routing_key": "k",
            "message_id": "M-1",
            **properties,
        },
        "body": body,
        "tag": tag,
    }


def test_one_message_stands_alone() -> None:
    data = deliveries.push_frame(3, "c", [entry(make_content(Properties(), b"hello"), 7)])

    assert decoded(data) == {"ch": 3, "consumer_tag": "c", **shown(b"hello", 7)}


def test_several_messages_are_a_batch() -> None:
    contents = [
        make_content(Properties(), b""),
        make_content(Properties(delivery_mode=2, message_id="own"), b"b"),
        make_content(Properties(headers=HeaderTable.of({"a": [1]})), b"c"),
    ]
    data = deliveries.push_frame("s", "c", [entry(one, tag) for tag, one in enumerate(contents, 5)])

    assert decoded(data) == {
        "ch": "s",
        "consumer_tag": "c",
        "batch": [
            shown(b"", 5),
            shown(b"b", 6, delivery_mode=2, message_id="own"),
            shown(b"c", 7, headers={"a": [1]}),
        ],
    }


def test_a_body_in_several_frames_is_put_together() -> None:
    content = make_frames(encode_properties({}).header(10_000), bytes(10_000), 1, 4096)

    assert decoded(deliveries.push_frame(1, "c", [entry(content)]))["body"] == bytes(10_000)


def test_the_redelivered_flag_is_set() -> None:
    one = entry(make_content(Properties(), b"x"), redelivered=True)

    assert decoded(deliveries.push_frame(1, "c", [one]))["redelivered"] is True


def test_a_message_id_is_never_taken_from_memory() -> None:
    pieces = deliveries.PackedProperties()
    for name in ("a", "b", None, "c"):
        content = make_content(Properties(message_id=name), b"")
        assert pieces.split(content)[1] == name


def test_a_message_id_is_what_the_peer_will_read() -> None:
    content = make_content(Properties(message_id="a\udcff\u00e9"), b"")

    assert deliveries.PackedProperties().split(content)[1] == "a?\u00e9"


def test_the_answer_to_a_get_is_a_map_too() -> None:
    data = deliveries.got_frame(4, 1, 2, entry(make_content(Properties(), b"x"), 9))

    assert msgpack.unpackb(data[8:]) == {
        "rid": 4,
        "ch": 1,
        "ok": True,
        "messages": 2,
        "message": shown(b"x", 9),
    }


def test_batches_have_a_size() -> None:
    entries = (
        [bytes(deliveries.BATCH_BYTES // 2)] * 5 + [bytes(3 * deliveries.BATCH_BYTES)] + [b"x"]
    )

    assert [len(batch) for batch in deliveries.in_batches(iter(entries))] == [2, 2, 1, 1, 1]
