"""A broker as a catalog of SQL: vhosts, tables, inserts, streams by name, and who may do what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op
from support.spark_lab.commands import ended, started

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """Vhosts / and B; anna sees / only, where she may read some and write some."""
    with run_broker() as broker:
        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest")) as api:
            api.put("/api/vhosts/B").raise_for_status()
            api.put("/api/permissions/B/guest", json=ALL).raise_for_status()
            api.put("/api/users/anna", json={"password": "a/b", "tags": ""}).raise_for_status()
            only = {"configure": "", "write": r"topic\.in", "read": "^orders$"}
            api.put("/api/permissions/%2F/anna", json=only).raise_for_status()
        for vhost in "/B":
            with BulkConnection(Settings(port=broker.native_port, vhost=vhost)) as bulk:
                for name in ("orders", "both", "a,b"):
                    bulk.call(Op.QUEUE_DECLARE, name=name, durable=True)
                for name in ("both", "in", "a"):
                    bulk.call(Op.TOPIC_DECLARE, name=name, queues=1)
                bulk.call(Op.QUEUE_DECLARE, name="passing")
                bulk.call(Op.EXCHANGE_DECLARE, name="orders", type="fanout", durable=True)
                bulk.call(Op.EXCHANGE_DECLARE, name="events", type="fanout", durable=True)
                bulk.call(Op.BIND, source="events", queue="orders", key="")
                bulk.call(Op.PUBLISH, batch=[
                    {"exchange": "", "key": "orders", "body": f"{vhost} {n}".encode(),
                     "properties": {"delivery_mode": 2}} for n in range(20)])  # fmt: skip
        yield broker


@pytest.fixture
def sql(spark: Any, broker: RunningBroker) -> Any:  # noqa: ANN401
    """Run a query, with {0} for a new catalog; its rows as tuples."""

    def run(query: str, url: str = broker.native_url) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query.format(catalog(spark, url))).collect()]

    return run


def catalog(spark: Any, url: str) -> str:  # noqa: ANN401
    name = f"c{uuid4().hex[:8]}"
    spark.conf.set(f"spark.sql.catalog.{name}", "headrace.spark.HeadraceCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.url", url)
    return name


def anna(broker: RunningBroker, vhost: str = "") -> str:
    return f"headrace://anna:a%2Fb@127.0.0.1:{broker.native_port}/{vhost}"


def test_vhosts_and_tables_are_listed(sql: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    assert sorted(sql("SHOW NAMESPACES IN {0}")) == [("B",), ("default",)]
    names = ["a", "a,b", "both", "events", "exchange:orders", "in", "orders"]
    names[2:3] = ["queue:both", "topic:both"]
    found = sql("SHOW TABLES IN {0}.B")
    assert sorted(row[1] for row in found) == sorted(names)
    assert sql("SHOW NAMESPACES IN {0}", anna(broker)) == [("default",)]
    seen = sql("SHOW TABLES IN {0}", anna(broker))
    assert sorted(row[1] for row in seen) == ["exchange:orders", "in", "orders"]
    assert [row[:2] for row in sql("DESCRIBE {0}.default.orders")][1:3] == [
        ("partition", "int"),
        ("offset", "bigint"),
    ]
    assert ("routing_key", "string") in [row[:2] for row in sql("DESCRIBE {0}.default.events")]


def test_queries_are_pushed_down(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    name = catalog(spark, broker.native_url)
    count = spark.sql(f"SELECT count(*) FROM {name}.B.orders WHERE offset >= 5")
    assert "LocalTableScan" in str(count._jdf.queryExecution().executedPlan().toString())
    assert count.collect()[0][0] == 15
    rows = spark.sql(f"SELECT body FROM {name}.default.orders WHERE offset < 2 ORDER BY offset")
    assert [bytes(row.body) for row in rows.collect()] == [b"/ 0", b"/ 1"]
    some = spark.read.option("startingOffsets", '{"orders": {"0": 18}}').option("columns", "body")
    assert some.table(f"{name}.B.orders").count() == 2
    with_selector = spark.read.option("selector", "nothing = 1").table(f"{name}.B.orders")
    assert with_selector.count() == 0
    past = spark.sql(f"SELECT * FROM {name}.B.orders TIMESTAMP AS OF '2020-01-01'")
    assert past.count() == 0


def test_rows_are_inserted_once(sql: Any, spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    name = catalog(spark, broker.native_url)
    spark.sql(f"CREATE TABLE {name}.B.copies TBLPROPERTIES ('queues' = '2', 'retention' = '7d')")
    spark.sql(f"INSERT INTO {name}.B.copies (key, body) VALUES ('k', 'one'), ('l', 'two')")
    spark.sql(f"INSERT INTO {name}.B.copies SELECT key, tags, body FROM {name}.B.orders LIMIT 3")
    assert spark.table(f"{name}.B.copies").count() == 5
    before = spark.table(f"{name}.default.orders").count()
    spark.sql(f"INSERT INTO {name}.default.events SELECT '' AS routing_key, 'new' AS body")
    assert spark.table(f"{name}.default.orders").count() == before + 1
    spark.sql(f"CREATE TABLE {name}.B.made AS SELECT key, body FROM {name}.B.copies")
    assert spark.table(f"{name}.B.made").count() == 5
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {name}.B.made")
    with pytest.raises(Exception, match="headrace topic delete"):
        sql("DROP TABLE {0}.B.made")  # of another catalog
    spark.sql(f"DROP TABLE {name}.B.made")
    assert ("B", "made", False) not in sql("SHOW TABLES IN {0}.B")
    with pytest.raises(Exception, match="body"):
        spark.sql(f"CREATE TABLE {name}.B.failed AS SELECT 'k' AS key")
    assert "failed" not in [row[1] for row in sql("SHOW TABLES IN {0}.B")]


def test_streams_go_from_table_to_table(spark: Any, broker: RunningBroker, tmp_path: Path) -> None:  # noqa: ANN401
    name = catalog(spark, broker.native_url)
    for _ in range(2):
        query = (
            spark.readStream.option("maxRowsPerTrigger", "15").table(f"{name}.B.orders")
            .select("body", "key").writeStream.option("checkpointLocation", str(tmp_path))
            .queryName("copy").trigger(availableNow=True).toTable(f"{name}.B.streamed")
        )  # fmt: skip
        query.awaitTermination()
    rows = spark.table(f"{name}.B.streamed").select("body").collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(b"B %d" % n for n in range(20))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT * FROM {0}.B.orders", "access to vhost 'B'"),
        ("SHOW TABLES IN {0}.B", "SCHEMA_NOT_FOUND"),
        ("SELECT * FROM {0}.default.`in`", "access to topic 'topic.in'"),
        ("SELECT * FROM {0}.default.`queue:a`", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM {0}.default.both", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM {0}.default.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM {0}.default.sub.orders", "TABLE_OR_VIEW_NOT_FOUND|at most three parts"),
        ("INSERT INTO {0}.default.orders SELECT 'x' AS body", "BATCH_WRITE|not support"),
        ("CREATE TABLE {0}.default.more", "access to topic 'topic.more'"),
        ("CREATE TABLE {0}.B.more", "access to vhost 'B'"),
        ("CREATE NAMESPACE {0}.C", "headrace vhost"),
        ("DROP TABLE {0}.default.orders", "headrace queue delete"),
    ],
)
def test_users_get_no_more_than_they_may(
    sql: Any,  # noqa: ANN401
    broker: RunningBroker,
    query: str,
    text: str,
) -> None:
    with pytest.raises(Exception, match=text) as refused:
        sql(query, anna(broker))
    assert "\tat " not in str(refused.value), "no stack of the JVM"


@pytest.mark.parametrize(
    ("query", "url", "text"),
    [
        ("SHOW TABLES IN {0}", "headrace://guest:wrong@127.0.0.1:{port}/", "login_refused"),
        ("SHOW TABLES IN {0}", "headrace://127.0.0.1:1/", "Is `headrace serve` running"),
        ("SHOW TABLES IN {0}", "mysql://u:secret@127.0.0.1/db", "expected headrace://"),
        ("SELECT * FROM {0}.B.both", "", "name it `queue:both` or `topic:both`"),
        ("SELECT * FROM {0}.B.`a,b`", "", "comma"),
        ("SELECT * FROM {0}.B.events", "", "BATCH_READ|not support|batch scan"),
        ("INSERT INTO {0}.B.`in` VALUES ('x')", "", "column 'col1' cannot be written"),
        ("INSERT OVERWRITE {0}.B.`in` SELECT 'x' AS body", "", "only be appended"),
        ("CREATE TABLE {0}.B.x (price int)", "", "column 'price'"),
        ("CREATE TABLE {0}.B.x TBLPROPERTIES ('queues' = '-1')", "", "queues"),
        ("CREATE TABLE {0}.B.x TBLPROPERTIES ('retention' = '7x')", "", "retention"),
        ("CREATE TABLE {0}.B.x (key string) PARTITIONED BY (key)", "", "not partitioned"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    sql: Any,  # noqa: ANN401
    broker: RunningBroker,
    query: str,
    url: str,
    text: str,
) -> None:
    with pytest.raises(Exception, match=text) as refused:
        sql(query, url.format(port=broker.native_port) or broker.native_url)
    assert "\tat " not in str(refused.value), "no stack of the JVM"
    assert "secret" not in str(refused.value)


def test_columns_do_not_change(sql: Any) -> None:  # noqa: ANN401
    with pytest.raises(Exception, match="do not change"):
        sql("ALTER TABLE {0}.B.`in` ADD COLUMN price int")


def test_running_queues_are_tables_beside_the_archive(spark: Any, broker: RunningBroker) -> None:  # noqa: ANN401
    from headrace.spark.archive.sql_tables import attach, query
    from headrace.spark.errors import BadOption

    names = attach(spark, broker.native_url)
    assert {"live.orders", "live.`queue:both`", "live.in"} <= {*names}
    spark.range(10, 15).selectExpr("id AS offset").createOrReplaceTempView("archived")
    both = "SELECT count(*) FROM (SELECT offset FROM live.orders UNION SELECT offset FROM archived)"
    assert query(spark, both, names).first()[0] == 20
    with pytest.raises(BadOption, match=r"unknown table `live`\.`nothing`; expected one of"):
        query(spark, "SELECT * FROM live.nothing", names)


@pytest.mark.spark
def test_the_command_queries_running_queues(broker: RunningBroker, tmp_path: Path) -> None:
    where = ("--url", broker.native_url, "--lake", str(tmp_path))
    for query, wanted in (
        (["SELECT count(*) AS n FROM live.orders"], {"n": 20}),
        ([], {"table": "live.orders"}),
    ):
        with started("sql", "--live", *query, *where, "--json", state=tmp_path) as process:
            code, out, errors = ended(process)
        assert code == 0, errors
        assert json.dumps(wanted)[1:-1] in out
