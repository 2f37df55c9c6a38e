"""The jar and the Python source read the same rows, from files and over the network."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from struct import pack_into, unpack_from
from typing import Any
from zlib import crc32

import pika
import pytest

from headrace.bulk.client import BulkConnection
from headrace.bulk.read_plan import ReadPlan
from headrace.client.settings import Settings
from headrace.spark.errors import reason_of
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op
from headrace.wire.record_layout import COUNT_AT, HEAD_SIZE_AT
from support.rocketmq.sql_expressions import MATCHED, NOT_MATCHED, PROPERTIES
from support.spark_lab import sessions

ROWS = 400
TEXTS = ("", "a", "ключ", "鍵", "x" * 200, "🙂 b", 'quote " and \\ and \n \t \x01')
NOT_UTF8 = (b"\xff", b"a\xc3", b"\xed\xa0\x80z", b"\xf0\x9f\x99", b"\xe0\x80\x80", b"\xf5\x80ok")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with run_broker(data_dir=tmp_path_factory.mktemp("data")) as broker:
        choose = random.Random(7)
        _fill_queues(broker, choose)
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            _fill_floats(bulk, choose)
            _fill_topic(bulk, choose)
        yield broker


def _value(choose: random.Random, depth: int = 0) -> object:
    plain = [
        choose.choice(TEXTS),
        choose.choice(NOT_UTF8),
        choose.randrange(-(2**63), 2**63),
        choose.randrange(-9, 9),
        choose.choice((True, False, None)),
        Decimal(choose.randrange(-99999, 99999)).scaleb(-choose.randrange(0, 12)),
        datetime.fromtimestamp(choose.randrange(0, 2**31), UTC),
    ]
    if depth < 3 and choose.random() < 0.4:
        nested = [_value(choose, depth + 1) for _ in range(choose.randrange(0, 4))]
        return nested if choose.random() < 0.5 else {f"n{i}\n": one for i, one in enumerate(nested)}
    return choose.choice(plain)


def _properties(choose: random.Random) -> pika.BasicProperties:
    texts = ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type",
             "app_id", "cluster_id")  # fmt: skip
    some: dict[str, Any] = {
        name: choose.choice(TEXTS)[:60] for name in texts if choose.random() < 0.3
    }
    if choose.random() < 0.5:
        names = ("h", "type", "priority", "headers", "é", "message_id")
        some["headers"] = {name: _value(choose) for name in names if choose.random() < 0.5}
    if choose.random() < 0.4:
        some["priority"] = choose.randrange(0, 256)
    if choose.random() < 0.4:
        some["timestamp"] = choose.choice((0, 1_700_000_000, 253_402_300_800, 2**63 - 1))
    return pika.BasicProperties(delivery_mode=2, **some)


def _fill_queues(broker: RunningBroker, choose: random.Random) -> None:
    """Runs, single messages, transactions, fanouts, and some that are acknowledged."""
    parameters = pika.URLParameters(broker.amqp_url + "?frame_max=4096")
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.exchange_declare("all", "fanout", durable=True)
    for queue in ("orders", "other", "grouped"):
        channel.queue_declare(queue, durable=True)
    channel.queue_bind("orders", "all")
    channel.queue_bind("other", "all")
    for n in range(ROWS):
        size = choose.choice((0, 1, 100, 3000, 4088, 4089, 9000, 20000))
        where = ("all", f"key {n % 3}") if n % 5 == 0 else ("", "orders")
        channel.basic_publish(*where, choose.randbytes(size), _properties(choose))
    for _ in range(ROWS // 10):
        method, _, _ = channel.basic_get("orders")
        if choose.random() < 0.5:
            channel.basic_ack(method.delivery_tag)
    grouped = connection.channel()
    grouped.tx_select()
    for n in range(30):
        grouped.basic_publish("", "grouped", b"%d" % n, _properties(choose))
        grouped.basic_publish("", "orders", b"in a group %d" % n, _properties(choose))
        if n % 7 == 6:
            grouped.tx_commit()
    grouped.tx_commit()
    connection.close()


def _fill_floats(bulk: BulkConnection, choose: random.Random) -> None:
    known = (0.1, 1e16, 1e15, 1e-4, 1e-5, 123456.789, 5e-324, -0.0, 2.0**70, 1 / 3, 2e-3, 2**0.5)
    known += (float("nan"), float("inf"), -float("inf"), 1.7976931348623157e308, 9007199254740993.0)
    more = [choose.uniform(-1, 1) * 10 ** choose.randrange(-30, 30) for _ in range(100)]
    batch = [
        {"exchange": "", "key": "orders", "body": b"f",
         "properties": {"delivery_mode": 2, "headers": {"f": one, "nested": {"list": [one]}}}}
        for one in (*known, *more)
    ]  # fmt: skip
    bulk.call(Op.PUBLISH, batch=batch)


def _fill_topic(bulk: BulkConnection, choose: random.Random) -> None:
    bulk.call(Op.TOPIC_DECLARE, name="events", queues=2)
    for _ in range(20):
        rows = []
        for _ in range(choose.choice((1, 1, 30))):
            row: dict[str, object] = {"priority": choose.choice(("low", "middle", "high"))}
            row["body"] = choose.randbytes(choose.choice((0, 1, 100, 5000)))
            for name in ("key", "tags", "message_id"):
                if choose.random() < 0.6:
                    row[name] = choose.choice(TEXTS)[:60]
            if choose.random() < 0.6:
                count = choose.choice((1, 3, 20))
                names = ["token", "source_ip", *(f"p{n}" for n in range(count))][-count - 1 :]
                row["properties"] = {name: choose.choice(TEXTS) for name in names}
            rows.append(row)
        token = choose.choice(("producer-1", "p"))
        bulk.call(Op.APPEND, topic="events", token=token, batch=rows)


def read(spark: Any, broker: RunningBroker, form: str, **options: str) -> list[Any]:  # noqa: ANN401
    options = {"url": broker.native_url, "rowsPerTask": "97", **options}
    table = spark.read.format(form).options(**options)
    rows = table.load().orderBy("source", "partition", "offset").collect()
    return [row.asDict() for row in rows]


@pytest.fixture(params=["files", "network"])
def byte_path(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:  # noqa: ANN401
    """How the jar gets the records."""
    with sessions.reading_by(spark, request.param):
        yield request.param


@pytest.mark.parametrize(
    "what", [{"queue": "orders,other"}, {"queue": "grouped"}, {"topic": "events"}]
)
def test_both_sources_read_the_same_rows(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    byte_path: str,
    what: dict[str, str],
) -> None:
    ours = read(spark, broker, "headrace", **what)
    python = read(spark, broker, "headrace-python", **what)
    assert len(python) >= 30
    assert [row["offset"] for row in ours] == [row["offset"] for row in python]
    for one, other in zip(ours, python, strict=True):
        assert one == other


def test_the_plan_names_the_source(spark: Any, broker: RunningBroker, capsys: Any) -> None:  # noqa: ANN401
    table = spark.read.format("headrace").options(url=broker.native_url, queue="orders").load()
    table.explain()
    assert "headrace queue orders, read in the JVM" in capsys.readouterr().out


def test_a_damaged_message_is_the_same_error_at_the_same_offset(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    byte_path: str,
) -> None:
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            for start in (0, 100):
                batch = [{"body": b"body %d." % n} for n in range(start, start + 100)]
                bulk.call(Op.APPEND, topic="t", batch=batch)
        # Of a content, of another before it, of a record's head: 200 bytes before its first body.
        for text, back, offset in (
            (b"body 142.", 0, 142),
            (b"body 7.", 0, 7),
            (b"body 0.", 200, 0),
        ):
            for file in tmp_path.rglob("*"):
                if file.is_file() and text in (data := bytearray(file.read_bytes())):
                    data[data.index(text) - back] ^= 1
                    file.write_bytes(data)
            reasons = []
            for form in ("headrace", "headrace-python"):
                with pytest.raises(Exception, match="headrace") as caught:
                    read(spark, broker, form, topic="t", rowsPerTask="500")
                reasons.append(reason_of(caught.value))
            assert reasons[0] == reasons[1]
            assert f"offset {offset}: their checksums are wrong" in reasons[0]


def rewrite(
    broker: RunningBroker, offset: int, change: Callable[[bytes], bytes], **what: str
) -> bytes:
    """Change the content of a message on the disk; its sums fit again. What it was before."""
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        wanted = {**what, "uuid": bulk.sources([what])[0].uuid, "seeds": True}
        found = bulk.call(Op.LOCATE, start=offset, end=offset + 1, **wanted)
    piece = ReadPlan.decode(found["job"]).pieces[0]
    path = Path(found["files"][0][0])
    data = bytearray(path.read_bytes())
    at = int.from_bytes(piece.positions[:8], "little") - piece.base
    (head_size,), (count,) = (
        unpack_from("<I", data, at + HEAD_SIZE_AT),
        unpack_from("<I", data, at + COUNT_AT),
    )
    table, number = (
        at + head_size - 8 * count,
        offset - int.from_bytes(piece.first_offsets[:8], "little"),
    )
    lengths = unpack_from(f"<{count}I", data, table)
    start = at + head_size + sum(lengths[:number])
    before = bytes(data[start : start + lengths[number]])
    new = change(before)
    assert len(new) == lengths[number]
    data[start : start + len(new)] = new
    pack_into("<I", data, table + 4 * (count + number), crc32(new))
    pack_into("<I", data, at, crc32(data[at + 4 : at + head_size], piece.seed))
    with path.open("r+b") as file:
        file.write(data)
    return before


def _with(place: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + value + content[place + len(value) :]


def _instead(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, new)


TOPIC, QUEUE = {"topic": "t"}, {"queue": "q"}
MALFORMED = {
    "key longer than the entry": (TOPIC, _with(2, b"\xff\xff")),
    "properties longer than the entry": (TOPIC, _with(12, b"\xff" * 4)),
    "name longer than its map": (TOPIC, _instead(b"\xa4name", b"\xbfname")),
    "map that is cut short": (TOPIC, _instead(b"\x81\xa4", b"\x82\xa4")),
    "no map": (TOPIC, _instead(b"\x81\xa4", b"\xc1\xa4")),
    "value that is no text": (TOPIC, _instead(b"\xa5value", b"\x01value")),
    "header longer than the content": (QUEUE, _with(3, b"\xff" * 4)),
    "header without flags": (QUEUE, _with(3, bytes(4))),
    "flags of missing properties": (QUEUE, _with(19, b"\xff\xfc")),
    "header of no type": (QUEUE, _instead(b"\4nameS", b"\4name\1")),
    "name longer than its table": (QUEUE, _instead(b"\4nameS", b"\xffnameS")),
    "body longer than the content": (QUEUE, _with(11, b"\x7f")),
    "frame longer than the body": (QUEUE, _instead(b"\0\0\0\6body", b"\0\0\0\7body")),
}


def test_a_malformed_content_is_the_same_error_at_the_same_offset(
    spark: Any,  # noqa: ANN401
    tmp_path: Path,
    byte_path: str,
) -> None:
    """The broker does not store such: its sums fit, so the disk has not done it."""
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            bulk.call(Op.QUEUE_DECLARE, name="q", durable=True)
            bodies: list[dict[str, object]] = [{"body": b"body %d" % n} for n in range(5)]
            given: dict[str, object] = {"key": "k", "properties": {"name": "value"}}
            bulk.call(Op.APPEND, topic="t", batch=[one | given for one in bodies])
            headers = {"delivery_mode": 2, "headers": {"name": "value"}}
            given = {"exchange": "", "key": "q", "properties": headers}
            bulk.call(Op.PUBLISH, batch=[one | given for one in bodies])
        for case, (what, change) in MALFORMED.items():
            before = rewrite(broker, 3, change, **what)
            reasons = []
            for form in ("headrace", "headrace-python"):
                with pytest.raises(Exception, match="headrace") as caught:
                    read(spark, broker, form, **what)
                reasons.append(reason_of(caught.value))
            assert (case, reasons[0]) == (case, reasons[1])
            assert "offset 3: its content is malformed" in reasons[0]
            rewrite(broker, 3, lambda _, before=before: before, **what)  # type: ignore[misc]
            assert len(read(spark, broker, "headrace", **what)) == 5


@pytest.mark.parametrize(
    "selector",
    [
        "priority > 100 OR h IS NOT NULL",
        "type = 'a' AND NOT (app_id IS NULL)",
        "f < 0.5",
        "'a' = type",
    ],
)
def test_both_sources_choose_the_same_rows_of_a_queue(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    byte_path: str,
    selector: str,
) -> None:
    what = {"queue": "orders,other", "selector": selector}
    ours = read(spark, broker, "headrace", **what)
    assert ours == read(spark, broker, "headrace-python", **what)
    assert 0 < len(ours) < 400


def test_both_sources_choose_the_same_rows_of_a_topic(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
) -> None:
    for selector in ("TAGS = 'a' OR KEYS = 'a'", "token = 'p' AND p0 <> ''", "KEYS CONTAINS 'ю'"):
        what = {"topic": "events", "selector": selector}
        ours = read(spark, broker, "headrace", **what)
        assert ours == read(spark, broker, "headrace-python", **what)
        table = spark.read.format("headrace").options(url=broker.native_url, **what).load()
        assert table.count() == len(ours)
        assert len(table.limit(3).collect()) == min(3, len(ours))
        plan = table._jdf.queryExecution().executedPlan().toString()
        assert "read in the JVM" in plan


def test_the_jar_chooses_by_the_table_of_expressions(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with run_broker(data_dir=tmp_path) as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            bulk.call(Op.TOPIC_DECLARE, name="t", queues=1)
            bulk.call(Op.APPEND, topic="t", batch=[{"body": b"x", "properties": PROPERTIES}])
        reader = spark.read.format("headrace").options(url=broker.native_url, topic="t")
        for expressions, wanted in ((MATCHED, 1), (NOT_MATCHED, 0)):
            for one in expressions:
                chosen = reader.option("selector", one).load().select("offset").collect()
                assert (one, len(chosen)) == (one, wanted)
