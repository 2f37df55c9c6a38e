"""Whole records go out with the reader's own messages in them, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any
from zlib import crc32

import httpx
import pika
import psutil
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import ConnectionClosed, HeadraceError
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op
from headrace.wire.record_layout import DESTINATION, NAMES_AT
from support import brokers
from support.brokers import Broker
from support.spark_lab.raw_records import records

SECRET = b"secret of B"


@pytest.fixture(scope="module")
def two_vhosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Vhosts A and B, with a user of A, and messages of both in the same log."""
    with run_broker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest")) as api:
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            for vhost in "AB":
                api.put(f"/api/vhosts/{vhost}").raise_for_status()
                api.put(f"/api/permissions/{vhost}/guest", json=rights).raise_for_status()
            api.put("/api/users/anna", json={"password": "a", "tags": ""}).raise_for_status()
            only = {"configure": "", "write": "", "read": "^(own|topic\\.own)$"}
            api.put("/api/permissions/A/anna", json=only).raise_for_status()
        for vhost in "AB":
            with BulkConnection(Settings(port=broker.native_port, vhost=vhost)) as bulk:
                bulk.call(Op.TOPIC_DECLARE, name="own", queues=1)
                for queue in ("own", "other"):
                    bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
                    bulk.call(Op.BIND, source="amq.fanout", queue=queue, key="")
                for n in range(20):
                    text = (SECRET if vhost == "B" else b"own") + b" %d" % n
                    bulk.call(Op.APPEND, topic="own", batch=[{"body": text}])
                    bulk.call(
                        Op.PUBLISH,
                        batch=[{"exchange": "amq.fanout", "key": "", "body": text,
                                "properties": {"delivery_mode": 2}}] * 5,
                    )  # fmt: skip
        yield broker


@pytest.fixture
def anna(two_vhosts: RunningBroker) -> Iterator[BulkConnection]:
    settings = Settings(port=two_vhosts.native_port, user="anna", password="a", vhost="A")
    with BulkConnection(settings) as connection:
        yield connection


def all_records(frames: list[dict[str, Any]]) -> Iterator[tuple[bytes, int]]:
    for frame in frames:
        places = sorted(set(unpack_from(f"<{len(frame['positions']) // 8}Q", frame["positions"])))
        for at in places:
            (size,) = unpack_from("<I", frame["data"], at + 4)
            yield bytes(frame["data"][at : at + size]), frame["seed"]


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": "other"},
        {"topic": "other"},
        {"queue": "own", "vhost": "B"},
        {"queue": "B/own"},
        {"queue": "own", "partition": 1},
        {"topic": "own", "partition": 7},
        {"queue": "own", "uuid": "of B"},
        {"topic": "own", "uuid": "of B"},
        {"queue": "own", "start": 1000, "end": 2000},
        {"topic": "own", "positions": b"\0" * 8, "files": ["1"], "base": 0, "number": 1},
        {"queue": "own", "positions": [0, 8, 16], "sizes": [1 << 30], "seed": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["relayed", "direct", "count"])
def test_a_user_of_one_vhost_never_gets_records_of_another(
    two_vhosts: RunningBroker, anna: BulkConnection, fields: dict[str, Any], how: str
) -> None:
    if fields.get("uuid"):
        settings = Settings(port=two_vhosts.native_port, vhost="B")
        with BulkConnection(settings) as bulk:
            kind = "queue" if "queue" in fields else "topic"
            fields = {**fields, "uuid": bulk.sources([{kind: "own"}])[0].uuid}
    fields = {"start": 0, "end": 1 << 40, **fields, how: True}
    try:
        if how == "count":
            assert anna.call(Op.RECORDS, **fields)["messages"] <= 100
            return
        found = b"".join(bytes(one["data"]) for one in records(anna, **fields))
    except HeadraceError:
        return
    assert SECRET not in found
    assert b"own" in found  # fields that are not known are ignored: it is her own queue
    with BulkConnection(Settings(port=two_vhosts.native_port, vhost="B")) as bulk:
        assert SECRET in b"".join(bytes(o["data"]) for o in records(bulk, 0, 100, topic="own"))


def test_other_destinations_are_not_named(two_vhosts: RunningBroker, anna: BulkConnection) -> None:
    seen = 0
    for record, seed in all_records(records(anna, 0, 100, queue="own")):
        head_size, destinations = unpack_from("<I", record, 8)[0], unpack_from("<H", record, 14)[0]
        (count,) = unpack_from("<I", record, 16)
        assert crc32(record[4:head_size], seed) == unpack_from("<I", record)[0]
        table = head_size - 8 * count - destinations * DESTINATION.size
        assert table >= NAMES_AT
        known = [DESTINATION.unpack_from(record, table + n * DESTINATION.size)
                 for n in range(destinations)]  # fmt: skip
        assert destinations == 2
        assert sum(any(one) for one in known) == 1
        seen += count
    assert seen == 100


def test_contents_outside_the_range_and_acknowledged_ones_are_left_out(tmp_path: Path) -> None:
    with run_broker(data_dir=tmp_path) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            batch = [{"exchange": "", "key": "q", "body": b"body %02d." % n,
                      "properties": {"delivery_mode": 2}} for n in range(20)]  # fmt: skip
            bulk.call(Op.PUBLISH, batch=batch)

            def bodies(start: int, end: int) -> list[int]:
                data = b"".join(r for r, _ in all_records(records(bulk, start, end, queue="q")))
                return [n for n in range(20) if b"body %02d." % n in data]

            assert bodies(0, 20) == list(range(20))
            assert bodies(5, 9) == [5, 6, 7, 8]
            for _ in range(3):
                method, _, _ = channel.basic_get("q")
                channel.basic_ack(method.delivery_tag)
            connection.close()
            shown = [row for one in bulk.fetch(0, 20, queue="q", columns=["offset"]) for row in one]
            assert shown
            counted = bulk.call(Op.RECORDS, queue="q", start=0, end=20, count=True)
            assert counted["messages"] == len(bodies(0, 20))
            assert (counted["first"], counted["last"]) == (bodies(0, 20)[0], 19)


# -- written by the fetch process itself ----------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """With 20 MB in the topic."""
    broker = brokers.start(tmp_path)
    try:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for start in range(0, 400, 20):
                rows = [{"body": b"%05d" % n + bytes(50_000)} for n in range(start, start + 20)]
                bulk.call(Op.APPEND, topic="t", batch=rows)
        yield broker
    finally:
        broker.stop()


def test_direct_frames_are_the_same_and_other_answers_wait(broker: Broker) -> None:
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        relayed = records(bulk, 0, 400, topic="t")
        for _ in range(3):
            rid = bulk._send(Op.RECORDS, {"topic": "t", "start": 0, "end": 400, "direct": True})
            ping = bulk._send(Op.PING, {})
            found = []
            while True:
                answer = bulk._receive()
                assert (answer["rid"], answer["ok"]) == (rid, True)
                if answer["last"]:
                    break
                found.append({**answer, "rid": 0})
            assert found == [{**one, "rid": 0} for one in relayed]
            assert (answer["messages"], answer["next"]) == (400, 400)
            assert bulk._receive()["rid"] == ping
            assert bulk.call(Op.BOUNDS, destinations=[{"topic": "t"}])["rows"]


def test_two_direct_reads_at_once_are_answered_one_after_the_other(broker: Broker) -> None:
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        wanted = {"topic": "t", "start": 0, "end": 400, "direct": True}
        rids = [bulk._send(Op.RECORDS, wanted) for _ in range(2)]
        ended = []
        while len(ended) < 2:
            answer = bulk._receive()
            assert answer["ok"]
            if answer["last"]:
                ended.append((answer["rid"], answer["messages"]))
        assert sorted(ended) == [(rid, 400) for rid in rids]


def test_a_fetch_process_killed_in_a_direct_read_ends_the_connection_only(broker: Broker) -> None:
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        assert len(records(bulk, 0, 20, topic="t", direct=True)) >= 1
    (child,) = psutil.Process(broker.pid).children()
    # Another connection: the broker may not have heard yet that the read on this one has ended.
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        # Some kernels let it grow to 32 MiB: all that the topic holds.
        bulk._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        bulk._send(Op.RECORDS, {"topic": "t", "start": 0, "end": 400, "direct": True})
        bulk._receive()  # it has begun, and cannot end before we have taken more
        child.kill()
        with pytest.raises(ConnectionClosed):
            while not bulk._receive()["last"]:
                pass
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        wait_for(lambda: not child.is_running() or child.status() == "zombie")
        assert sum(map(len, records(bulk, 0, 400, topic="t", direct=True))) > 0


def test_a_reader_that_hangs_up_ends_a_direct_read(broker: Broker, tmp_path: Path) -> None:
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        bulk._send(Op.RECORDS, {"topic": "t", "start": 0, "end": 400, "direct": True})
        bulk._receive()
        (child,) = psutil.Process(broker.pid).children()
    data = str(tmp_path / "data")
    wait_for(lambda: not any(one.path.startswith(data) for one in child.open_files()))
    assert child.is_running()
