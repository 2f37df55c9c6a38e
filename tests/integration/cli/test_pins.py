"""`headrace pin` and `headrace group`: readers outside are seen like groups, and let go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from headrace import topics
from headrace.bulk.client import BulkConnection
from headrace.client import Channel
from headrace.client.settings import Settings
from headrace.testing import RunningBroker
from support.shell import call

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def bulk(site: RunningBroker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=site.native_port or 0)) as connection:
        yield connection


def groups(site: RunningBroker) -> list[dict[str, object]]:
    request = Request(f"http://127.0.0.1:{site.http_port}/api/groups")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urlopen(request, timeout=10) as answer:
        found: list[dict[str, object]] = json.load(answer)
    return found


def test_a_query_shows_as_a_group_with_its_lag(
    site: RunningBroker, channel: Channel, bulk: BulkConnection, capsys: Capsys
) -> None:
    channel.queue_declare("orders", durable=True)
    channel.publish_batch(("", "orders", {"delivery_mode": 2}, b"x") for _ in range(7))
    with topics.open(f"headrace://127.0.0.1:{site.native_port}") as store:
        store.create("events")
        for number in range(9):
            priority = "high" if number < 3 else "middle"
            store.producer("events", token="p").append(b"x", priority=priority)
    for kind, name, done in (("queue", "orders", {0: 2}), ("topic", "events", {0: 1, 1: 2})):
        uuid = bulk.sources([{kind: name}])[0].uuid
        bulk.pin(f"of-{name}", kind, {name: (uuid, done)}, 1 << 20)

    lines = call(capsys, "pin", "list").out.splitlines()
    assert [line.split("\t")[:6] for line in lines] == [
        ["of-events", "topic", "events", "6", "1048576", "held"],
        ["of-orders", "queue", "orders", "5", "1048576", "held"],
    ]
    rows = json.loads(call(capsys, "group", "list", "events", "--json").out)
    assert [(row["group"], row["messages"]) for row in rows] == [("spark.of-events", 6)]
    priorities = json.loads(call(capsys, "group", "lag", "events", "spark.of-events", "--json").out)
    assert {row["priority"]: row["messages"] for row in priorities} == {
        "high": 1,
        "middle": 5,
        "low": 0,
    }
    found = {row["name"]: (row["topic"], row["queue"], row["messages"]) for row in groups(site)}
    assert found == {
        "spark.of-events": ("events", "", 6),
        "spark.of-orders": ("", "orders", 5),
    }

    reset = call(capsys, "group", "reset", "events", "spark.of-events", "--to", "latest", "--yes")
    assert reset.code == 1
    assert "its position is in its checkpoint" in reset.err
    assert call(capsys, "pin", "delete", "of-orders").code == 2  # it asks, and nobody is there
    done = call(capsys, "pin", "delete", "of-orders", "--yes")
    assert done == (0, "released queue orders\n", "")
    again = call(capsys, "pin", "delete", "of-orders", "--yes")
    assert again.code == 1
    assert "no pin for 'of-orders'" in again.err
    assert call(capsys, "group", "delete", "events", "spark.of-events", "--yes").code == 0
    assert call(capsys, "pin", "list").out == ""
    assert bulk.pins() == []


def test_without_a_broker_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.setenv("HEADRACE_URL", "headrace://127.0.0.1:1")
    done = call(capsys, "pin", "list")
    assert done.code == 1
    assert done.err.count("\n") == 1
