"""Topics, groups and pipelines on the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from support.brokers import Broker
from support.console_page import Api, Console


@pytest.fixture
def store(managed: Broker) -> Iterator[topics.Store]:
    with topics.open(f"headrace://guest:guest@{managed.host}:{managed.native_port}/") as opened:
        yield opened


def lag(api: Api, topic: str, group: str) -> int:
    found = api.get("topics", "/", topic, "groups")
    assert isinstance(found, list)
    return int(next(one["messages"] for one in found if one["group"] == group))


def test_a_topic_is_created_and_the_offsets_of_a_group_are_reset(
    console: Console, api: Api, store: topics.Store
) -> None:
    console.open("topics")
    console.click("New topic")
    console.fill("Name", "clicks")
    console.click("Create topic")
    expect(console.heading("clicks")).to_be_visible()
    console.sees("No groups yet")

    producer = store.producer("clicks", token="appid-1;sid-1")
    for number in range(4):
        producer.append(str(number).encode(), priority="high" if number == 3 else "middle")
    consumer = store.consumer("clicks", token="appid-1;sid-2", group="dashboard")
    consumer.commit(consumer.read(100))
    assert lag(api, "clicks", "dashboard") == 0

    console.open("groups")
    row = console.row("Groups", "dashboard")
    expect(row).to_contain_text("up to date")
    row.get_by_role("link", name="dashboard").click()
    expect(console.heading("dashboard")).to_be_visible()
    console.sees("appid-1;sid-2")
    console.click("Reset…")
    console.confirm("Reset offsets", typed="dashboard")
    console.expect_notice("Group offsets reset.")

    assert lag(api, "clicks", "dashboard") == 4
    expect(console.page.locator(".figure").filter(has_text="Lag")).to_contain_text("4")


def test_the_priorities_of_a_group_add_up(console: Console, store: topics.Store) -> None:
    store.create("steps")
    store.producer("steps", token="appid-1").append_many([b"x"] * 10)
    consumer = store.consumer("steps", token="appid-2", group="walkers")
    consumer.commit(consumer.read(3))

    console.open("groups", "/", "steps", "walkers")

    cells = console.row("Lag by priority", "middle").get_by_role("cell")
    for place, text in enumerate(("middle", "3", "10", "7")):  # committed, last, lag
        expect(cells.nth(place)).to_have_text(text)


def test_a_pipeline_shows_its_rate_its_lag_and_its_last_error(
    console: Console, managed: Broker
) -> None:
    query = {"sink": "warehouse", "batch": 7, "rows": 1200, "rows_per_second": 250.5,
             "batch_ms": 80, "lag": 31, "late_rows": 0}  # fmt: skip
    settings = Settings(host=managed.host, port=managed.native_port)
    with BulkConnection(settings) as connection:
        connection.report_pipeline("to-warehouse", {"state": "running", "queries": [query]})
        connection.report_pipeline("nightly", {"state": "finished", "queries": [query]})
        connection.report_pipeline("broken", {"state": "failed", "error": "no such column: pirce"})

        bad = {"source": "in", "partition": 0, "offset": 41, "reason": "not JSON", "body": "{oops",
               "found_at": "2026-03-01T00:00:00+00:00"}  # fmt: skip
        state = {"state": "running", "queries": [query], "last_bad": [bad]}
        for _ in range(3):
            connection.report_pipeline("charted", state)

    console.open("pipelines")

    for title in ("Rows", "Lag", "Batch duration"):
        expect(console.page.get_by_role("figure", name=title).locator("canvas")).to_be_visible()
    expect(console.row("Last bad records of charted", "in")).to_contain_text("{oops")
    expect(console.row("Queries of to-warehouse", "warehouse")).to_contain_text("251/s")
    expect(console.row("Queries of to-warehouse", "warehouse")).to_contain_text("31")
    console.sees("no such column: pirce")
    expect(console.row("Queries of nightly", "warehouse")).to_contain_text("0/s")
    expect(console.row("Queries of nightly", "warehouse")).not_to_contain_text("251")
    console.sees("finished")


def test_a_saved_report_is_shown_with_its_charts_and_deleted(console: Console, api: Api) -> None:
    evil = "<img src=x onerror=alert(1)>"
    line = [[f"2026-03-01T{hour:02}:00:00+00:00", hour * 2.5] for hour in range(24)]
    api.put(
        "reports", "/", evil,
        **{"from": "2026-03-01T00:00:00+00:00", "to": "2026-03-02T00:00:00+00:00",
           "window": "1 hour", "notes": [evil],
           "tables": [{"title": "Latency", "columns": ["queue", "p95"], "rows": [[evil, 12.5]]}],
           "charts": [{"title": "Messages in", "unit": "per hour", "lines": {evil: line}}]},
    )  # fmt: skip

    console.open("reports")
    console.row("Saved reports", evil).get_by_role("link", name=evil).click()
    expect(console.heading(evil)).to_be_visible()
    expect(console.row("Latency", evil)).to_contain_text("12.5")
    chart = console.page.get_by_role("figure", name="Messages in, per hour")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart).to_contain_text("57.5")
    console.click("Delete…")
    console.confirm("Delete report")
    console.expect_notice("Report deleted.")
    console.sees("No saved reports")
