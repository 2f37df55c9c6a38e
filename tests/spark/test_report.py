"""A report says what plain Python says of the same messages and events."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.cli.spark.report import kept_form
from headrace.cli.support.http_api import ManagementClient
from headrace.client import ConnectionFactory
from headrace.testing import RunningBroker, run_broker, wait_for


def acknowledged_events(root: str) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    rows = DeltaTable(root).to_pyarrow_table().to_pylist()
    found = [json.loads(row["body"]) for row in rows if row["source"] == "$events"]
    return [one for one in found if one["kind"] == "acknowledged"]


def nearest(values: list[int], share: float) -> int:
    """As Spark's percentile_approx picks it."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 100) * len(ordered) // 100) - 1)]


def made_and_kept(broker: RunningBroker, *wanted: Any) -> Any:  # noqa: ANN401
    """As `headrace report --keep-as daily` does it."""
    from headrace.spark.reports.report import make

    report = make(*wanted)
    client = ManagementClient(str(broker.http_url), None)
    client.request("PUT", ("reports", "/", "daily"), kept_form(report))
    kept = client.get("reports", "/", "daily")
    assert [one["title"] for one in kept["charts"]] == [one.title for one in report.charts]
    assert [len(one["rows"]) for one in kept["tables"]] == [len(one.rows) for one in report.tables]
    return report


def test_a_report_agrees_with_plain_python(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    from deltalake import DeltaTable

    from headrace.spark.archive.archiver import Archiver
    from headrace.spark.reports.html import page

    since = datetime.now(UTC) - timedelta(minutes=1)
    with run_broker(events=True) as broker:
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        job = Archiver(spark, tmp_path / "lake", url)
        assert broker.native_port is not None
        with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
            channel = connection.create_channel()
            channel.queue_declare("dead", durable=True)
            channel.queue_declare(
                "work",
                durable=True,
                arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
            )
            channel.exchange_declare("x", "topic", durable=True)
            channel.queue_bind("work", "x", "#")
            job.run(once=True, stop=threading.Event())
            born = int(time.time() * 1000) - 5000
            channel.publish_batch(
                ("x", f"k.{n % 3}", {"delivery_mode": 2, "timestamp": born}, b"x" * n)
                for n in range(100)
            )
            for n in range(60):
                taken = channel.basic_get("work", auto_ack=False)
                assert taken is not None
                if n % 20 == 0:
                    taken.nack(requeue=False)
                else:
                    taken.ack()

        def counted() -> int:
            job.run(once=True, stop=threading.Event())
            noted = acknowledged_events(job.root)
            return sum(r["last"] - r["first"] + 1 for one in noted for r in one["ranges"])

        wait_for(lambda: counted() == 57, timeout=60)
        until = datetime.now(UTC) + timedelta(seconds=1)
        report = made_and_kept(broker, spark, url, since, until, "1 minute", tmp_path / "lake")

    tables = {table.title: table for table in report.tables}
    volume = {row[1]: row[2:4] for row in tables["Throughput"].rows}
    assert volume["work"] == (100, sum(range(100)))
    assert volume["dead"] == (3, 0 + 20 + 40)
    assert tables["Outcomes"].rows == [("work", 57, 0, 3, 0, 0)]
    keys = Counter(f"k.{n % 3}" for n in range(100))
    found = {row[1]: row[2] for row in tables["Top routing keys"].rows if row[0] == "work"}
    assert found == dict(keys)

    rows = DeltaTable(job.root).to_pyarrow_table().to_pylist()
    stored = {row["offset"]: row for row in rows if row["source"] == "work"}
    waits, wholes = [], []
    for event in acknowledged_events(job.root):
        for one in event["ranges"]:
            for offset in range(one["first"], one["last"] + 1):
                message = stored[offset]
                waits.append(event["time"] - round(message["timestamp"].timestamp() * 1000))
                wholes.append(event["time"] - round(message["born"].timestamp() * 1000))
    expected = [nearest(values, share) for values in (waits, wholes) for share in (0.5, 0.95, 0.99)]
    assert list(tables["Latency"].rows[0]) == ["work", *expected]
    assert min(wholes) >= 4000
    lag = next(chart for chart in report.charts if chart.title == "Messages waiting")
    assert lag.lines["work"][-1][1] == 40.0
    assert "Queue wait, p95" in page(report)
