"""The example pipelines, run as they are, against the same figures computed in plain Python."""

from __future__ import annotations

import csv
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headrace.topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from support.mariadb import prepared
from support.spark_lab.examples import load_example

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
make_orders = load_example("pipelines/make_orders.py")
COUNT = 700


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        make_orders.publish(url_of(broker), make_orders.orders(COUNT))
        with headrace.topics.open(url_of(broker)) as store:
            store.create("enriched")
        yield broker


@pytest.fixture
def place(broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_URL", url_of(broker))
    monkeypatch.setenv("OUT", str(tmp_path))
    return tmp_path


def run(spark: Any, file: Path, place: Path) -> dict[str, Any]:  # noqa: ANN401 - pyspark's own
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.run import PipelineRunner
    from headrace.spark.pipelines.validate import check

    pipeline = load(file)
    check(spark, pipeline)
    return PipelineRunner(spark, pipeline, place / "state", once=True).run()


def good_orders(count: int = COUNT) -> list[dict[str, Any]]:
    found = []
    for body in make_orders.orders(count):
        try:
            order = json.loads(body, parse_float=Decimal)
        except ValueError:
            continue
        if isinstance(order.get("id"), int):
            found.append(order)
    return found


def test_orders_per_minute(spark: Any, place: Path) -> None:  # noqa: ANN401
    from headrace.spark.lake.delta import read_delta

    state = run(spark, EXAMPLES / "orders-per-minute.toml", place)
    expected: dict[tuple[datetime, str], list[Decimal]] = defaultdict(list)
    for order in good_orders():
        at = datetime.fromisoformat(order["ordered_at"]).replace(second=0, microsecond=0)
        expected[at.replace(tzinfo=None), order["shop"]].append(order["amount"])
    rows = read_delta(spark, str(place / "revenue-per-minute")).collect()
    assert {(row.minute, row.shop): (row.orders, row.revenue) for row in rows} == {
        key: (len(amounts), sum(amounts)) for key, amounts in expected.items()
    }
    assert state["state"] == "finished"
    assert state["bad_records"] == COUNT // 100

    bad = read_delta(spark, str(place / "state/bad-records/orders-per-minute")).collect()
    assert sorted(row.offset for row in bad) == list(range(99, COUNT, 100))
    assert {row.reason[:15] for row in bad} == {
        "not JSON: Expec",
        "field 'shop' is",
        "field 'id' is m",
        "the body is not",
    }


def test_enriched_orders_go_to_a_topic(spark: Any, place: Path, broker: RunningBroker) -> None:  # noqa: ANN401
    run(spark, EXAMPLES / "enrich.toml", place)
    run(spark, EXAMPLES / "enrich.toml", place)  # nothing new, so nothing happens
    with (EXAMPLES / "customers.csv").open() as file:
        customers = {int(row["customer"]): row for row in csv.DictReader(file)}
    expected = set()
    for order in good_orders():
        known = customers.get(order["customer"], {"name": None, "country": None})
        expected.add((order["id"], order["amount"], known["name"], known["country"]))
    read = spark.read.format("headrace").option("url", url_of(broker)).option("topic", "enriched")
    rows = read.load().collect()
    found = [(json.loads(row.body, parse_float=Decimal), row) for row in rows]
    assert len(found) == len(expected)
    assert {(o["id"], o["amount"], o.get("name"), o.get("country")) for o, _ in found} == expected
    assert all(row.tags == (order.get("country") or "unknown") for order, row in found)


def test_orders_are_rows_of_a_delta_table_also_after_a_restart(spark: Any, place: Path) -> None:  # noqa: ANN401
    import duckdb
    from deltalake import DeltaTable

    run(spark, EXAMPLES / "to-delta.yaml", place)
    run(spark, EXAMPLES / "to-delta.yaml", place)
    files = DeltaTable(str(place / "orders")).file_uris()
    query = "SELECT count(*), count(DISTINCT message), sum(amount) FROM read_parquet(?)"
    expected = good_orders()
    total = sum(order["amount"] for order in expected)
    assert duckdb.execute(query, [files]).fetchone() == (len(expected), len(expected), total)


def test_the_same_batch_twice_is_in_a_delta_table_once(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    from headrace.spark.lake.delta import read_delta
    from headrace.spark.pipelines.sinks import DeltaSink

    rows = spark.createDataFrame([(1, "a/b"), (2, None)], "n INT, part STRING")
    for sink in (
        DeltaSink(str(tmp_path / "appended"), ("part",)),
        DeltaSink(str(tmp_path / "merged"), (), ("n",)),
    ):
        for batch in (0, 0, 1):
            sink.write(rows, "query", batch)
        sink.write(rows, "another query", 0)
        found = [(row.n, row.part) for row in read_delta(spark, sink.path).collect()]
        times = 1 if sink.keys else 3
        assert sorted(found, key=str) == sorted([(1, "a/b"), (2, None)] * times, key=str)


def test_customers_are_replaced_in_mysql(
    spark: Any,  # noqa: ANN401
    place: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.spark.errors import PipelineFailed

    server = prepared(tmp_path_factory.mktemp("db"))
    try:
        with server.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        monkeypatch.setenv("MYSQL_URL", server.url("shop"))
        with pytest.raises(PipelineFailed, match="no table last_orders; create it: CREATE"):
            run(spark, EXAMPLES / "mysql-upsert.toml", place)
        with server.connect("shop") as connection, connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE last_orders (customer INT PRIMARY KEY, orders BIGINT, "
                "last_id BIGINT, spent DECIMAL(20,2))"
            )
        run(spark, EXAMPLES / "mysql-upsert.toml", place)
        expected: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for order in good_orders():
            expected[order["customer"]].append(order)
        with server.connect("shop") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT customer, orders, last_id, spent FROM last_orders")
            found = sorted(cursor.fetchall())
    finally:
        server.stop()
    assert found == sorted(
        (who, len(of), max(one["id"] for one in of), sum(one["amount"] for one in of))
        for who, of in expected.items()
    )


def test_errors_in_sql_are_reported_with_their_line(spark: Any, place: Path) -> None:  # noqa: ANN401
    from headrace.spark.errors import BadPipeline
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.validate import check

    text = (EXAMPLES / "to-delta.yaml").read_text("utf-8")
    for old, new, told in (
        ("to_date(ordered_at)", "to_date(orderd_at)", ":12: .*orderd_at.* cannot be resolved"),
        ("FROM orders", "FROM order", ":13: unknown view `order`; expected one of orders$"),
        ("partition_by: [day]", "partition_by: [month]", ":15: sink 'lake': .*no column 'month'"),
        ("id BIGINT", "id BIGINTEGER", ":4: schema: Unsupported data type"),
        ("SELECT id", "SELECT count(*), id", "(?i):15: sink|:11: .*group"),
    ):
        file = place / "broken.yaml"
        file.write_text(text.replace(old, new), "utf-8")
        with pytest.raises(BadPipeline, match=told):
            check(spark, load(file))


def test_a_missing_queue_is_one_clear_line(spark: Any, place: Path) -> None:  # noqa: ANN401
    from headrace.spark.errors import SparkError

    file = place / "missing.toml"
    file.write_text('[sources.s]\nqueue = "nowhere"\n[sinks.c]\ntype = "console"\n', "utf-8")
    with pytest.raises(SparkError, match="no queue 'nowhere' in vhost '/'") as told:
        run(spark, file, place)
    assert "\n" not in str(told.value)


def test_a_stopped_pipeline_continues_later(
    spark: Any,  # noqa: ANN401
    place: Path,
    broker: RunningBroker,
) -> None:
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.run import PipelineRunner
    from headrace.spark.pipelines.status import all_states

    text = (EXAMPLES / "to-delta.yaml").read_text("utf-8")
    file = place / "slow.yaml"
    name = text.replace("name: to-delta", "name: slow")
    file.write_text(name.replace("queue: orders", "queue: orders\n    max_rows_per_trigger: 50"))
    stop = threading.Event()

    class StopAtThird:
        """Like a signal in the middle of the work."""

        def batch(self, figures: Any) -> None:  # noqa: ANN401
            if figures.sink == "lake" and figures.batch >= 2:
                stop.set()

        def line(self, queries: object, bad: int) -> None: ...
        def end(self) -> None: ...

    runner = PipelineRunner(spark, load(file), place / "state", stop=stop, shown=StopAtThird())  # type: ignore[arg-type]
    assert runner.run()["state"] == "stopped"
    assert [one["state"] for one in all_states(place / "state")] == ["stopped"]
    from deltalake import DeltaTable

    before = DeltaTable(str(place / "orders")).to_pyarrow_table().num_rows
    assert 100 <= before < len(good_orders())
    assert run(spark, file, place)["state"] == "finished"
    table = DeltaTable(str(place / "orders")).to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == [order["id"] for order in good_orders()]


def test_a_pipeline_that_has_read_everything_holds_nothing(
    spark: Any,  # noqa: ANN401
    place: Path,
    broker: RunningBroker,
) -> None:
    file = place / "done.yaml"
    text = (EXAMPLES / "to-delta.yaml").read_text("utf-8")
    file.write_text(text.replace("name: to-delta", "name: done"))
    for _ in range(2):
        state = run(spark, file, place)
        assert [one["rows_per_second"] for one in state["queries"]] == [0.0, 0.0]
        with BulkConnection(Settings(port=broker.native_port or 0)) as bulk:
            pins = {pin.query: pin for pin in bulk.pins() if pin.query.startswith("done.")}
            (orders,) = bulk.sources([{"queue": "orders"}])
        assert sorted(pins) == ["done.bad-records", "done.lake"]
        for pin in pins.values():
            assert (pin.messages, pin.positions) == (0, {"0": orders.ranges[0].end})


def test_a_batch_that_is_not_in_the_commit_log_stays_held(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    from headrace.spark.offsets import SourceOffset, StreamOffset
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.run import committed, release

    assert committed(spark, str(tmp_path)) == []
    ends = [StreamOffset("q.s", {"orders": SourceOffset("u", {0: at})}) for at in (10, 20)]
    for directory in ("offsets", "commits"):
        (tmp_path / directory).mkdir()
    for batch, end in enumerate(ends):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end.to_json())}\n-'
        (tmp_path / "offsets" / str(batch)).write_text(text)
    assert committed(spark, str(tmp_path)) == []
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    (tmp_path / "commits" / ".1.crc").write_text("half written")
    assert committed(spark, str(tmp_path)) == ends[:1]
    (tmp_path / "commits" / "1").write_text("v1\n{}")
    assert committed(spark, str(tmp_path)) == ends[1:]
    (tmp_path / "offsets" / "1").unlink()  # whatever happened: the run is not spoilt by it
    release(spark, load(EXAMPLES / "to-delta.yaml"), "lake", str(tmp_path))


def test_several_sources_and_sinks_of_every_kind(
    spark: Any,  # noqa: ANN401
    place: Path,
    broker: RunningBroker,
) -> None:
    import io

    import fastavro

    from headrace.client import ConnectionFactory

    moment = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [{"name": "n", "type": "long"}, {"name": "at", "type": moment}]
    record = {"type": "record", "name": "r", "fields": fields}
    (place / "r.avsc").write_text(json.dumps(record))
    (place / "shouting.py").write_text(
        "from pyspark.sql import functions as F\n"
        "def louder(rows):\n"
        "    mark = F.udf(lambda text: text + '!')\n"
        "    return rows.select(mark('text').alias('body'), F.lit('loud').alias('routing_key'))\n"
    )
    file = place / "mixed.toml"
    file.write_text(
        """
[sources.numbers]
queue = "numbers"
decode = "avro"
schema_file = "r.avsc"
[sources.words]
queue = "words"
decode = "text"
[[steps]]
name = "loud"
python = "shouting:louder"
[sinks.files]
type = "parquet"
from = "numbers"
path = "numbers"
[sinks.out]
type = "exchange"
exchange = ""
[sinks.shown]
type = "console"
from = "numbers"
"""
    )
    assert broker.native_port is not None
    with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        for queue in ("numbers", "words", "loud"):
            channel.queue_declare(queue, durable=True)
        stored = {"delivery_mode": 2}
        for n in range(5):
            data = io.BytesIO()
            fastavro.schemaless_writer(data, record, {"n": n, "at": datetime(2026, 1, 1)})
            channel.basic_publish("", "numbers", stored, data.getvalue())
            channel.basic_publish("", "words", stored, f"w{n}".encode())
        channel.basic_publish("", "numbers", stored, b"\xff")
        channel.basic_publish("", "words", stored, b"\xff")
        state = run(spark, file, place)
        loud = []
        while (message := channel.basic_get("loud", auto_ack=True)) is not None:
            loud.append(message.body)
    assert state["bad_records"] == 2
    assert sorted(loud) == [f"w{n}!".encode() for n in range(5)]
    rows = spark.read.parquet(str(place / "numbers")).collect()
    assert sorted((row.n, row.at, row._message.source) for row in rows) == [
        (n, datetime(2026, 1, 1), "numbers") for n in range(5)
    ]
