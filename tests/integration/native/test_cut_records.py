"""Readers that show no bodies get heads of records and beginnings of contents, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any
from zlib import crc32

import pika
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op
from headrace.wire.record_layout import DESTINATION
from support.spark_lab.raw_records import beginnings, records

COUNT, BODY = 300, b"body %05d "
EVERY = ("offset", "key", "tags", "message_id", "born", "properties", "body")


def body(n: int) -> bytes:
    return BODY % n * (40 + n % 7)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A topic and a queue with records of many messages, one of them shared with another queue."""
    with run_broker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for queue in ("q", "other"):
                bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
                bulk.call(Op.BIND, source="amq.fanout", queue=queue, key="")
            rows = [
                {
                    "key": f"key {n}",
                    "tags": f"tag {n}",
                    "message_id": f"id {n}" + " " * 30,
                    "properties": {"p": f"value {n}" + " " * 30},
                    "body": body(n),
                }
                for n in range(COUNT)
            ]
            bulk.call(Op.APPEND, topic="t", token="token", batch=rows)
            headers = {"delivery_mode": 2, "headers": {"h": "header"}}
            for exchange, key in (("", "q"), ("amq.fanout", "")):
                rows = [
                    {
                        "exchange": exchange,
                        "key": key,
                        "properties": headers | {"message_id": f"id {n}"},
                        "body": body(n),
                    }
                    for n in range(COUNT)
                ]
                bulk.call(Op.PUBLISH, batch=rows)
        yield broker


@pytest.fixture
def bulk(filled: RunningBroker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=filled.native_port)) as connection:
        yield connection


def joined(frames: list[dict[str, Any]]) -> bytes:
    return b"".join(bytes(one["data"]) for one in frames)


def test_columns_of_record_heads_need_no_contents(bulk: BulkConnection) -> None:
    for kind, columns in (
        ("topic", ["offset", "timestamp", "priority"]),
        ("queue", ["key", "tags"]),
    ):
        name = kind[0]
        frames = records(bulk, 0, 1000, columns=columns, **{kind: name})
        assert frames
        assert {one["width"] for one in frames} == {0}
        data = joined(frames)
        assert b"body" not in data
        assert b"id 7" not in data
        assert sum(1 for _ in beginnings(frames)) == (COUNT if kind == "topic" else 2 * COUNT)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("columns", [EVERY[:n] for n in range(2, 7)], ids=lambda one: one[-1])
def test_contents_of_a_topic_go_out_up_to_the_last_field_that_is_shown(
    bulk: BulkConnection, columns: tuple[str, ...], direct: bool
) -> None:
    whole = [one for _, one in beginnings(records(bulk, 0, 1000, topic="t"))]
    frames = records(bulk, 0, 1000, topic="t", columns=list(columns), direct=direct)
    assert all(one["width"] for one in frames)
    found = [one for _, one in beginnings(frames)]
    assert len(found) == COUNT
    for cut, content in zip(found, whole, strict=True):
        assert content.startswith(cut)
    data = joined(frames)
    assert b"key 299" in data
    assert (b"id 299" in data) == ("message_id" in columns)
    assert (b"value 299" in data) == ("properties" in columns)
    assert body(7)[:50] not in data


def test_contents_of_a_queue_go_out_up_to_the_body(bulk: BulkConnection) -> None:
    for queue, count in (("q", 2 * COUNT), ("other", COUNT)):
        whole = [one for _, one in beginnings(records(bulk, 0, 1000, queue=queue))]
        frames = records(bulk, 0, 1000, queue=queue, columns=["message_id"])
        found = [one for _, one in beginnings(frames)]
        assert len(found) == count
        assert all(one["width"] for one in frames)
        for cut, content in zip(found, whole, strict=True):
            assert content.startswith(cut)
            assert b"header" in cut
        assert b"body 00007 body" not in joined(frames)


def test_heads_have_their_sums_and_name_no_other_destination(bulk: BulkConnection) -> None:
    frames = records(bulk, 0, 1000, queue="other", columns=["message_id"])
    for frame in frames:
        places = set(unpack_from(f"<{len(frame['positions']) // 8}Q", frame["positions"]))
        for at in places:
            head_size, destinations = (unpack_from(code, frame["data"], at + place)[0]
                                       for code, place in (("<I", 8), ("<H", 14)))  # fmt: skip
            head = frame["data"][at : at + head_size]
            (count,) = unpack_from("<I", head, 16)
            assert crc32(head[4:], frame["seed"]) == unpack_from("<I", head)[0]
            table = head_size - 8 * count - destinations * DESTINATION.size
            known = [DESTINATION.unpack_from(head, table + n * DESTINATION.size)
                     for n in range(destinations)]  # fmt: skip
            assert destinations == 2
            assert sum(any(one) for one in known) == 1


def test_what_is_not_wanted_of_a_record_is_left_out(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            ids_of = [{"delivery_mode": 2, "message_id": f"id {n}."} for n in range(20)]
            rows = [
                {"exchange": "", "key": "q", "body": bytes(5000), "properties": one}
                for one in ids_of
            ]
            bulk.call(Op.PUBLISH, batch=rows)

            def ids(start: int, end: int) -> list[int]:
                frames = records(bulk, start, end, queue="q", columns=["message_id"])
                assert {one["width"] for one in frames} == {32}
                data = joined(frames)
                found = [n for n in range(20) if b"id %d." % n in data]
                assert [offset for offset, _ in beginnings(frames)] == found
                return found

            assert ids(0, 20) == list(range(20))
            assert ids(5, 9) == [5, 6, 7, 8]
            for _ in range(5):
                method, _, _ = channel.basic_get("q")
                if method.delivery_tag % 2:
                    channel.basic_ack(method.delivery_tag)
            channel.basic_get("q")  # what came before is processed
            assert ids(0, 20) == [n for n in range(20) if n not in (0, 2, 4)]
            connection.close()


def test_what_is_as_small_as_its_fields_goes_out_whole(bulk: BulkConnection) -> None:
    bulk.call(Op.TOPIC_DECLARE, name="small", queues=1)
    for size in (0, 1, 10):
        rows = [{"key": f"key {n}", "body": bytes(size)} for n in range(COUNT)]
        bulk.call(Op.APPEND, topic="small", batch=rows)
    frames = records(bulk, 0, 1000, topic="small", columns=["offset", "key"])
    assert not any("width" in one for one in frames)
    assert sum(1 for _ in beginnings(frames)) == 3 * COUNT


def test_one_message_with_long_fields_among_many(bulk: BulkConnection) -> None:
    """It would make the beginnings of all others as long as its own."""
    bulk.call(Op.TOPIC_DECLARE, name="long", queues=1)
    rows = [{"key": "k", "properties": {"p": "x" * (50_000 if n == 7 else 10)}, "body": bytes(400)}
            for n in range(COUNT)]  # fmt: skip
    bulk.call(Op.APPEND, topic="long", batch=rows)
    frames = records(bulk, 0, 1000, topic="long", columns=["properties"])
    assert not any("width" in one for one in frames)
    assert any(one["width"] == 40 for one in records(bulk, 0, 1000, topic="long", columns=["key"]))


def test_contents_whose_fields_do_not_fit_go_out_whole(tmp_path: Path) -> None:
    """The reader finds their sums wrong then."""
    with (
        run_broker(data_dir=tmp_path) as broker,
        BulkConnection(Settings(port=broker.native_port)) as bulk,
    ):
        bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
        rows = [{"key": f"key {n}", "body": bytes(500)} for n in range(20)]
        bulk.call(Op.APPEND, topic="t", batch=rows)
        wanted = {"topic": "t", "columns": ["key"]}
        assert records(bulk, 0, 20, **wanted)[0]["width"]
        for file in tmp_path.rglob("*.log"):
            data = bytearray(file.read_bytes())
            if (at := data.find(b"key 7")) >= 0:
                data[at - 29] ^= 0x80  # the high byte of the key's length
                file.write_bytes(data)
        (frame,) = records(bulk, 0, 20, **wanted)
        assert "width" not in frame
