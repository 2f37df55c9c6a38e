"""The three examples, with the data of their generators, against figures of plain Python."""

from __future__ import annotations

import csv
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headrace.topics
from headrace.client import ConnectionFactory
from headrace.testing import RunningBroker, run_broker, wait_for
from support.spark_lab.examples import load_example

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
make_orders = load_example("pipelines/make_orders.py")
make_clicks = load_example("pipelines/make_clicks.py")
make_failures = load_example("pipelines/make_failures.py")
MINUTE = timedelta(minutes=1)


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    with run_broker() as broker:
        monkeypatch.setenv("HEADRACE_URL", url_of(broker))
        monkeypatch.setenv("OUT", str(tmp_path))
        yield broker


def run(spark: Any, name: str, place: Path) -> dict[str, Any]:  # noqa: ANN401 - pyspark's own
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.run import PipelineRunner
    from headrace.spark.pipelines.validate import check

    pipeline = load(EXAMPLES / name)
    check(spark, pipeline)
    return PipelineRunner(spark, pipeline, place / "state", once=True).run()


# -- shop orders ----------------------------------------------------------------------------------

Revenue = dict[tuple[datetime, str], tuple[int, Decimal]]


def orders_of(bodies: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for body in bodies:
        try:
            order = json.loads(body, parse_float=Decimal)
        except ValueError:
            continue
        if isinstance(order.get("id"), int):
            yield order


def revenue_of(orders: list[dict[str, Any]], until: datetime) -> Revenue:
    """Of the minutes that are over then."""
    with (EXAMPLES / "customers.csv").open() as file:
        countries = {int(row["customer"]): row["country"] for row in csv.DictReader(file)}
    found: dict[tuple[datetime, str], list[Decimal]] = defaultdict(list)
    for order in orders:
        minute = datetime.fromisoformat(order["ordered_at"]).replace(second=0, microsecond=0)
        if minute + MINUTE <= until:
            country = countries.get(order["customer"], "unknown")
            found[minute, country].append(Decimal(order["amount"]))
    return {key: (len(amounts), sum(amounts, Decimal())) for key, amounts in found.items()}


def published_revenue(broker: RunningBroker) -> Revenue:
    found: Revenue = {}
    with headrace.topics.open(url_of(broker)) as store:
        consumer = store.consumer("revenue", token="test")
        while batch := consumer.read(1000):
            for message in batch:
                row = json.loads(message.body, parse_float=Decimal)
                key = (datetime.fromisoformat(row["minute"]), row["country"])
                assert key not in found  # once for each minute and country
                assert message.tags == row["country"]
                found[key] = (row["orders"], Decimal(row["revenue"]))
            consumer.commit(batch)
    return found


def test_revenue_per_minute_goes_to_a_topic_and_late_orders_are_left_out(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
) -> None:
    with headrace.topics.open(url_of(broker)) as store:
        store.create("revenue")
    make_orders.publish(url_of(broker), make_orders.orders(700))
    first = run(spark, "shop-revenue.toml", tmp_path)
    make_orders.publish(url_of(broker), make_orders.late_orders(40))
    last = run(spark, "shop-revenue.toml", tmp_path)

    orders = list(orders_of(make_orders.orders(700)))
    newest = max(datetime.fromisoformat(order["ordered_at"]) for order in orders)
    expected = revenue_of(orders, newest - 2 * MINUTE)
    assert len(expected) > 20
    assert published_revenue(broker) == expected
    late = [sum(query["late_rows"] for query in state["queries"]) for state in (first, last)]
    assert late[0] == 0
    assert late[1] > 0
    assert (first["bad_records"], last["bad_records"]) == (7, 7)


# -- clicks ---------------------------------------------------------------------------------------


def visits_of(clicks: list[dict[str, str]]) -> list[tuple[object, ...]]:
    by_user: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for one in clicks:
        by_user[one["user"]].append((datetime.fromisoformat(one["at"]), one["page"]))
    found: list[tuple[object, ...]] = []
    for user, made in by_user.items():
        visits: list[list[tuple[datetime, str]]] = []
        for click in sorted(made):
            if not visits or click[0] - visits[-1][-1][0] > timedelta(minutes=10):
                visits.append([])
            visits[-1].append(click)
        for visit in visits:
            (began, first), (ended, last) = visit[0], visit[-1]
            seconds = int(ended.timestamp()) - int(began.timestamp())
            found.append((user, began.replace(tzinfo=None), len(visit), first, last, seconds))
    return found


@pytest.mark.spark
def test_clicks_become_visits(spark: Any, broker: RunningBroker, tmp_path: Path) -> None:  # noqa: ANN401
    from headrace.spark.lake.delta import read_delta

    clicks = list(make_clicks.clicks(900))
    make_clicks.append(url_of(broker), clicks)
    state = run(spark, "click-sessions.toml", tmp_path)
    rows = read_delta(spark, str(tmp_path / "visits")).collect()
    expected = [visit for visit in visits_of(clicks) if visit[0] != "end"]  # still there
    assert len(expected) > 60
    assert sorted(map(tuple, rows)) == sorted(expected)
    assert state["bad_records"] == 0


# -- the archive ----------------------------------------------------------------------------------


@pytest.mark.spark
def test_orders_of_a_queue_are_joined_with_the_archive(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.spark.archive.archiver import Archiver
    from headrace.spark.lake.delta import read_delta

    monkeypatch.setenv("LAKE", str(tmp_path / "lake"))
    make_orders.publish(url_of(broker), make_orders.orders(300))
    job = Archiver(spark, tmp_path / "lake", url_of(broker))
    assert job.run(once=True, stop=threading.Event()) == 300
    make_orders.publish(url_of(broker), make_orders.late_orders(40))
    run(spark, "returning-customers.toml", tmp_path)

    known: dict[int, list[Decimal]] = defaultdict(list)
    old = list(orders_of(make_orders.orders(300)))
    for order in old:
        known[order["customer"]].append(Decimal(order["amount"]))
    expected = {
        order["id"]: (len(known[order["customer"]]), sum(known[order["customer"]], Decimal()))
        for order in (*old, *orders_of(make_orders.late_orders(40)))
    }
    rows = read_delta(spark, str(tmp_path / "returning-customers")).collect()
    found = {row.id: (row.archived_orders, row.archived_amount or 0) for row in rows}
    assert len(rows) == len(expected)
    assert found == expected


# -- dead letters ---------------------------------------------------------------------------------


@pytest.mark.spark
def test_dead_letters_are_counted_by_their_causes(
    spark: Any,  # noqa: ANN401
    broker: RunningBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from headrace.spark.lake.delta import read_delta

    jobs = list(make_failures.jobs(300))
    with make_failures.connect(url_of(broker)).new_connection() as connection:
        letters = make_failures.fail(connection.create_channel(), jobs)
    wait_for(lambda: waiting(broker) == letters, timeout=30)
    state = run(spark, "dead-letters.toml", tmp_path)

    expected: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for body, fate in jobs:
        if fate != "done" and body != make_failures.NOT_A_JOB:
            job = json.loads(body)
            queue = "jobs" if fate == "rejected" else "jobs.waiting"
            expected[queue, fate, job["kind"]].append(job["job"])
    assert len(expected) == 6
    rows = read_delta(spark, str(tmp_path / "dead-letters")).collect()
    assert {tuple(row)[:3]: tuple(row)[3:] for row in rows} == {
        key: (len(numbers), min(numbers), max(numbers)) for key, numbers in expected.items()
    }
    assert state["bad_records"] == 3
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(row["letters"] for row in shown) == sum(map(len, expected.values()))


def waiting(broker: RunningBroker) -> int:
    with ConnectionFactory("127.0.0.1", broker.native_port or 0).new_connection() as connection:
        return connection.create_channel().queue_declare("jobs.dead", durable=True).messages
