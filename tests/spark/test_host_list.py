"""`url` may name several hosts, of a broker and of a database: one that is down is passed."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import topics
from headrace.testing import run_broker
from support.mariadb import MariaDb
from support.ports import free_port

pytestmark = pytest.mark.timeout(300)


def round_trip(spark: Any, url: str) -> None:  # noqa: ANN401
    """Write a topic and read it."""
    with topics.open(url) as store:
        store.create("listed")
    rows = spark.createDataFrame([(b"%d" % number,) for number in range(20)], ["body"])
    target = rows.write.format("headrace").option("url", url).option("topic", "listed")
    target.mode("append").save()
    found = spark.read.format("headrace").option("url", url).option("topic", "listed").load()
    assert {bytes(row.body) for row in found.collect()} == {b"%d" % one for one in range(20)}


def test_hosts_of_a_broker(spark: Any) -> None:  # noqa: ANN401
    with run_broker() as broker:
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{broker.ports['native']}"
        round_trip(spark, f"headrace://guest:guest@{hosts}/")


def test_hosts_of_a_database(spark: Any, mariadb_server: MariaDb) -> None:  # noqa: ANN401
    mariadb_server.create_database("spark_hosts")
    url = mariadb_server.url("spark_hosts")
    round_trip(spark, url.replace("@127.0.0.1", f"@127.0.0.1:{free_port()},127.0.0.1"))
