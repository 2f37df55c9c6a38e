"""Reading by offset: bounds, fetch, pins, and writing staged batches, against a real broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pika
import pyarrow as pa
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.testing import wait_for
from headrace.wire.native.payloads import Op
from support import brokers
from support.brokers import Broker
from support.native_types import Namer

PERSISTENT = pika.BasicProperties(delivery_mode=2)
LIMIT = 1 << 30


def connected(broker: Broker) -> BulkConnection:
    return BulkConnection(Settings(port=broker.native_port))


@pytest.fixture
def bulk(broker: Broker) -> Iterator[BulkConnection]:
    with connected(broker) as connection:
        yield connection


@pytest.fixture
def amqp(broker: Broker) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def fetched(
    bulk: BulkConnection, start: int, end: int, **wanted: object
) -> list[dict[str, object]]:
    """The rows as dictionaries."""
    rows: list[dict[str, object]] = []
    parts: list[bytes] = []
    for piece in bulk.fetch(start, end, **wanted):
        if piece:
            parts.append(piece)
        elif parts:
            rows += pa.ipc.open_stream(b"".join(parts)).read_all().to_pylist()
            parts = []
    return rows


def bodies(rows: list[dict[str, object]]) -> list[object]:
    return [row["body"] for row in rows]


def publish(amqp: object, queue: str, *messages: bytes) -> None:
    for body in messages:
        amqp.basic_publish("", queue, body, PERSISTENT)  # type: ignore[attr-defined]


def syncs_of(broker: Broker) -> float:
    """How often the log was synced."""
    with urlopen(f"http://{broker.host}:{broker.ports['http']}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return float(next(one for one in lines if one.startswith("rabbitmq_io_sync_ops")).split()[1])


def refused(call: Callable[[], object]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        call()
    return caught.value


# -- queues ---------------------------------------------------------------------------------------


def test_a_queue_is_read_without_being_consumed(
    bulk: BulkConnection, amqp: object, name: Namer
) -> None:
    queue = name()
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    publish(amqp, queue, b"a", b"b", b"c")
    found = bulk.sources([{"queue": queue}])[0]
    part = found.ranges[0]
    assert (part.first, part.complete, part.end) == (0, 0, 3)
    assert bodies(fetched(bulk, 0, 3, queue=queue)) == [b"a", b"b", b"c"]
    assert bodies(fetched(bulk, 1, 2, queue=queue)) == [b"b"]
    method, _, body = amqp.basic_get(queue, auto_ack=True)  # type: ignore[attr-defined]
    assert (method.redelivered, body) == (False, b"a")


def test_messages_of_a_weaker_level_are_read_once_a_sync_covers_them(
    bulk: BulkConnection, amqp: object, name: Namer, broker: Broker
) -> None:
    queue = name()
    amqp.queue_declare(  # type: ignore[attr-defined]
        queue, durable=True, arguments={"x-durability": "os"}
    )
    before = syncs_of(broker)
    publish(amqp, queue, b"a", b"b", b"c")

    part = bulk.sources([{"queue": queue}])[0].ranges[0]

    assert part.end == 3
    assert syncs_of(broker) > before


def test_acknowledged_messages_are_not_shown_unless_pinned(
    bulk: BulkConnection, amqp: object, name: Namer
) -> None:
    queue = name()
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    publish(amqp, queue, b"a", b"b", b"c")
    uuid = bulk.sources([{"queue": queue}])[0].uuid
    assert amqp.basic_get(queue, auto_ack=True)[2] == b"a"  # type: ignore[attr-defined]
    wait_for(lambda: bulk.sources([{"queue": queue}])[0].ranges[0].complete == 1)
    bulk.pin("query", "queue", {queue: (uuid, {0: 1})}, LIMIT)
    assert amqp.basic_get(queue, auto_ack=True)[2] == b"b"  # type: ignore[attr-defined]
    assert amqp.basic_get(queue, auto_ack=True)[2] == b"c"  # type: ignore[attr-defined]
    amqp.queue_declare(queue, passive=True)  # type: ignore[attr-defined]
    assert bodies(fetched(bulk, 0, 3, queue=queue)) == [b"b", b"c"]
    assert refused(lambda: fetched(bulk, 0, 3, queue=queue, complete=True)).code == "data_lost"

    bulk.pin("query", "queue", {queue: (uuid, {0: 2})}, LIMIT)
    wait_for(lambda: bodies(fetched(bulk, 0, 3, queue=queue)) == [b"c"], timeout=10)
    bulk.unpin("query")
    wait_for(lambda: fetched(bulk, 0, 3, queue=queue) == [], timeout=10)


def test_a_pin_over_its_limit_is_lost_and_its_reader_gets_an_error(
    bulk: BulkConnection, amqp: object, name: Namer
) -> None:
    queue = name()
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    uuid = bulk.sources([{"queue": queue}])[0].uuid
    bulk.pin("small", "queue", {queue: (uuid, {0: 0})}, 10_000)
    for _ in range(3):
        publish(amqp, queue, bytes(9000))
        assert amqp.basic_get(queue, auto_ack=True)[0] is not None  # type: ignore[attr-defined]

    def is_lost() -> bool:
        try:
            bulk.pin("small", "queue", {queue: (uuid, {0: 0})}, 10_000)
        except HeadraceError as error:
            return error.code == "data_lost"
        return False

    wait_for(is_lost, timeout=15)
    assert refused(lambda: fetched(bulk, 0, 3, queue=queue, complete=True)).code == "data_lost"
    bulk.unpin("small")
    bulk.pin("small", "queue", {queue: (uuid, {0: 3})}, 10_000)
    bulk.unpin("small")


def test_a_queue_made_again_is_another_one(bulk: BulkConnection, amqp: object, name: Namer) -> None:
    queue = name()
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    uuid = bulk.sources([{"queue": queue}])[0].uuid
    amqp.queue_delete(queue)  # type: ignore[attr-defined]
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    publish(amqp, queue, b"new")
    assert refused(lambda: fetched(bulk, 0, 1, queue=queue, uuid=uuid)).code == "source_changed"
    pin = {queue: (uuid, {0: 0})}
    assert refused(lambda: bulk.pin("q", "queue", pin, LIMIT)).code == "source_changed"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"queue": "no such queue"}, "not_found"),
        ({"topic": "no such topic"}, "no_such_topic"),
        ({"queue": "", "columns": ["nothing"]}, "precondition_failed"),
    ],
)
def test_what_cannot_be_fetched(bulk: BulkConnection, fields: dict[str, object], code: str) -> None:
    assert refused(lambda: fetched(bulk, 0, 1, **fields)).code == code
    bulk.call(Op.PING)


def test_a_queue_that_is_not_durable_has_no_offsets(
    bulk: BulkConnection, amqp: object, name: Namer
) -> None:
    queue = name()
    amqp.queue_declare(queue)  # type: ignore[attr-defined]
    error = refused(lambda: bulk.sources([{"queue": queue}]))
    assert "not durable" in error.text


def test_many_batches_keep_their_order(bulk: BulkConnection, amqp: object, name: Namer) -> None:
    queue = name()
    amqp.queue_declare(queue, durable=True)  # type: ignore[attr-defined]
    expected = [b"%05d" % n + bytes(50_000) for n in range(200)]  # more than two frames
    publish(amqp, queue, *expected)
    assert bodies(fetched(bulk, 0, 200, queue=queue, columns=["body"])) == expected


def test_the_fetch_process_killed_is_an_error_and_the_next_fetch_works(
    tmp_path: Path,
) -> None:
    broker = brokers.start(tmp_path)
    try:
        with connected(broker) as bulk:
            bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
            bulk.call(Op.PUBLISH, exchange="", key="q", properties={"delivery_mode": 2}, body=b"x")
            assert bodies(fetched(bulk, 0, 1, queue="q")) == [b"x"]
            (child,) = _children(broker.pid or 0)
            os.kill(child, signal.SIGKILL)
            wait_for(lambda: _is_gone(child))
            assert bodies(fetched(bulk, 0, 1, queue="q")) == [b"x"]
    finally:
        broker.stop()


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def _is_gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


# -- staged writes --------------------------------------------------------------------------------


def declared(bulk: BulkConnection, name: Namer) -> str:
    queue = name()
    bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
    return queue


def message(queue: str, body: bytes) -> dict[str, object]:
    return {"exchange": "", "key": queue, "properties": {"delivery_mode": 2}, "body": body}


def ready(bulk: BulkConnection, queue: str) -> int:
    return int(bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)["messages"])


def test_staged_messages_are_seen_once_they_are_published(
    bulk: BulkConnection, name: Namer
) -> None:
    queue, query = declared(bulk, name), name()
    bulk.stage(query, 0, "0-a", [message(queue, b"a")])
    bulk.stage(query, 0, "1-b", [message(queue, b"b"), message(queue, b"c")])
    bulk.stage(query, 0, "1-lost", [message(queue, b"of an attempt that failed")])
    assert ready(bulk, queue) == 0
    assert bulk.publish_staged(query, 0, ["0-a", "1-b"])
    assert bodies(fetched(bulk, 0, 10, queue=queue)) == [b"a", b"b", b"c"]
    # Again, as a driver does that was killed before it noted the batch.
    bulk.stage(query, 0, "0-z", [message(queue, b"a")])
    assert not bulk.publish_staged(query, 0, ["0-z"])
    assert ready(bulk, queue) == 3
    bulk.stage(query, 1, "0-a", [message(queue, b"d")])
    assert bulk.publish_staged(query, 1, ["0-a"])
    assert ready(bulk, queue) == 4


def test_a_batch_with_a_bad_message_publishes_nothing(bulk: BulkConnection, name: Namer) -> None:
    queue, query = declared(bulk, name), name()
    bulk.stage(query, 0, "a", [message(queue, b"good")])
    bulk.stage(query, 0, "a", [{**message(queue, b"bad"), "exchange": "no such exchange"}])
    assert refused(lambda: bulk.publish_staged(query, 0, ["a"])).code == "not_found"
    assert ready(bulk, queue) == 0
    bulk.discard_staged(query, 0)
    assert refused(lambda: bulk.publish_staged(query, 0, ["a"])).code == "not_found"


@pytest.mark.parametrize("batch", [1 << 62, (1 << 64) - 1])
def test_a_batch_number_without_room_behind_it_is_refused(
    bulk: BulkConnection, name: Namer, batch: int
) -> None:
    queue, query = declared(bulk, name), name()
    staged = [message(queue, b"x")]
    error = refused(lambda: bulk.stage(query, batch, "a", staged))
    assert error.code == "precondition_failed"
    error = refused(lambda: bulk.publish_staged(query, batch, ["a"]))
    assert error.code == "precondition_failed"
    assert ready(bulk, queue) == 0


def test_a_batch_for_a_topic(bulk: BulkConnection, name: Namer) -> None:
    topic = name().replace("-", "_")
    bulk.call(Op.TOPIC_DECLARE, name=topic, queues=1)
    rows = [{"priority": "high", "key": "k", "body": b"1"}, {"priority": "low", "body": b"2"}]
    bulk.stage(topic, 0, "a", rows, topic=topic)
    assert bulk.publish_staged(topic, 0, ["a"])
    assert bodies(fetched(bulk, 0, 1, topic=topic, partition=1)) == [b"1"]
    assert bodies(fetched(bulk, 0, 1, topic=topic, partition=2)) == [b"2"]
    bulk.call(Op.TOPIC_DELETE, name=topic)


def test_published_batches_pins_and_offsets_survive_a_kill(tmp_path: Path) -> None:
    broker = brokers.start(tmp_path)
    with connected(broker) as bulk:
        bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
        uuid = bulk.sources([{"queue": "q"}])[0].uuid
        bulk.pin("reader", "queue", {"q": (uuid, {0: 0})}, LIMIT)
        for batch in range(3):
            bulk.stage("sink", batch, "a", [message("q", b"%d" % batch)])
            assert bulk.publish_staged("sink", batch, ["a"])
        assert bulk.call(Op.GET, queue="q", auto_ack=True)["message"] is not None
        bulk.stage("sink", 3, "a", [message("q", b"never published")])
    broker.kill()
    broker = brokers.start(tmp_path)
    try:
        with connected(broker) as bulk:
            assert bodies(fetched(bulk, 0, 9, queue="q", complete=True)) == [b"0", b"1", b"2"]
            for batch in range(3):
                assert not bulk.publish_staged("sink", batch, ["a"])
            assert refused(lambda: bulk.publish_staged("sink", 3, ["a"])).code == "not_found"
            bulk.stage("sink", 3, "b", [message("q", b"3")])
            assert bulk.publish_staged("sink", 3, ["b"])
            assert bodies(fetched(bulk, 3, 9, queue="q")) == [b"3"]
    finally:
        broker.stop()


# -- retention of topics --------------------------------------------------------------------------


def test_a_pin_holds_expired_messages_up_to_its_limit(bulk: BulkConnection, name: Namer) -> None:
    topic = name().replace("-", "_")
    bulk.call(Op.TOPIC_DECLARE, name=topic, queues=1, retention_bytes=100_000)
    row = {"priority": "middle", "body": bytes(10_000)}
    bulk.call(Op.APPEND, topic=topic, batch=[row])
    uuid = bulk.sources([{"topic": topic}])[0].uuid
    bulk.pin("patient", "topic", {topic: (uuid, {0: 0})}, 10_000_000)

    def first() -> int:
        return bulk.sources([{"topic": topic}])[0].ranges[0].complete

    def lost() -> list[bool]:
        return [pin.lost for pin in bulk.pins() if pin.query in ("patient", "small")]

    for _ in range(20):
        bulk.call(Op.APPEND, topic=topic, batch=[row] * 5)
    bulk.pin("small", "topic", {topic: (uuid, {0: 0})}, 200_000)
    wait_for(lambda: lost() == [False, True], timeout=15)  # it looked at all of them by now
    assert first() == 0
    assert len(fetched(bulk, 0, 101, topic=topic, complete=True)) == 101
    bulk.unpin("patient")
    wait_for(lambda: first() > 80, timeout=15)
    bulk.unpin("small")
    bulk.call(Op.TOPIC_DELETE, name=topic)
