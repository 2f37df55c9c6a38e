"""Lists: pages, order, columns, names, rates; and that work is bounded by what is shown."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace.core.queues.queue import Queue
from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.server.http import listing
from headrace.server.http.api import queues
from headrace.testing import RunningBroker, run_broker, wait_for
from support.http_api import Api, part

MANY = 10_000


@pytest.fixture(scope="module")
def crowd() -> Iterator[tuple[RunningBroker, Api]]:
    """A broker with a great many queues."""

    async def fill(server: Server) -> None:
        vhost = core(server).vhosts["/"]
        for number in range(MANY):
            vhost.declare_queue(f"queue-{number:05d}")

    with run_broker(sync=False) as broker:
        broker._running().call(fill)
        with Api(broker) as api:
            yield broker, api


def test_pages_have_their_number_and_counts(crowd: tuple[RunningBroker, Api]) -> None:
    page = crowd[1].get("/api/queues", page=3, page_size=50)
    assert {key: page[key] for key in page if key != "items"} == {
        "page": 3, "page_size": 50, "page_count": MANY // 50, "item_count": 50,
        "filtered_count": MANY, "total_count": MANY,
    }  # fmt: skip
    assert page["items"][0]["name"] == "queue-00100"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"page": 0}, "invalid_pagination_parameters"),
        ({"page": 1, "page_size": 501}, "invalid_pagination_parameters"),
        ({"page": MANY}, "page_out_of_range"),
        ({"page": "x"}, "bad_request"),
        ({"page": 1, "name": "((", "use_regex": "true"}, "bad_request"),
        ({"page": 1, "name": "(a{1000}){1000}", "use_regex": "true"}, "bad_request"),
    ],
)
def test_bad_pages_are_refused(
    crowd: tuple[RunningBroker, Api], query: dict[str, Any], error: str
) -> None:
    assert crowd[1].get("/api/queues", 400, **query)["error"] == error


def test_names_are_found_by_text_and_by_pattern(crowd: tuple[RunningBroker, Api]) -> None:
    found = crowd[1].get("/api/queues", page=1, name="QUEUE-0012")
    assert found["filtered_count"] == 10
    found = crowd[1].get("/api/queues", page=1, name="^queue-[0-9]*99$", use_regex="true")
    assert found["filtered_count"] == MANY // 100
    assert crowd[1].get("/api/queues", page=1, name="queue.0012")["filtered_count"] == 0


def test_patterns_of_lists_share_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    seen: list[int] = []

    class Counting:
        def matches(self, name: str) -> bool:
            compared.append(name)
            return False

    async def bystander() -> None:
        while len(compared) < 1000:
            seen.append(len(compared))
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.create_task(bystander())
        call: Any = SimpleNamespace(query={"name": "x"}, flag=lambda name: True)
        fields: Any = SimpleNamespace(column=lambda name: str)
        await listing._filtered(call, range(1000), fields)
        await other

    monkeypatch.setattr(listing, "compile_pattern", lambda *_, **__: Counting())
    asyncio.run(main())

    assert max(later - earlier for earlier, later in pairwise(seen)) == listing.MATCHED


def test_only_the_rows_of_a_page_are_built(
    crowd: tuple[RunningBroker, Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: Counter[str] = Counter()
    real = queues.sizes

    def counting(queue: Queue) -> dict[str, object]:
        built["rows"] += 1
        return real(queue)

    monkeypatch.setattr(queues, "sizes", counting)
    crowd[1].get("/api/queues", page=2, page_size=100)
    assert built["rows"] == 100
    crowd[1].get("/api/queues", page=1, page_size=20, sort="messages", sort_reverse="true")
    assert built["rows"] == 120
    crowd[1].get("/api/queues", columns="name,messages")
    assert built["rows"] == 120


def test_a_list_of_ten_thousand_is_quick(
    crowd: tuple[RunningBroker, Api], capsys: pytest.CaptureFixture[str]
) -> None:
    """The figure is only reported: machines differ, and so do their other tenants."""
    began = time.perf_counter()
    body = crowd[1].call("GET", "/api/queues").content
    seconds = time.perf_counter() - began
    assert len(json.loads(body)) == MANY
    with capsys.disabled():
        size = len(body) >> 20
        sys.stdout.write(f"\n{MANY} queues, all columns, ~{size} MiB: {seconds * 1000:.0f} ms ")


def test_columns_reach_into_objects(api: Api, queue: str) -> None:
    api.publish(queue)
    rows = api.get("/api/queues", columns="name,message_stats.publish", name=queue)
    assert rows == [{"name": queue, "message_stats": {"publish": 1}}]
    assert api.get("/api/overview", columns="object_totals.queues").keys() == {"object_totals"}


def test_the_quick_way_to_json_says_the_same(
    api: Api, managed: RunningBroker, channel: BlockingChannel, name: Callable[[str], str]
) -> None:
    """Lists are written without an encoder where that is possible; single rows are not."""
    mark = name('quick"\\ü')
    for kind, body in {
        "plain": {},
        "stored": {"durable": True, "arguments": {"x-max-length": 5, "x-y": [1, {"z": None}]}},
        "busy": {"auto_delete": True},
    }.items():
        api.put(f"/api/queues/%2F/{part(mark + kind)}", body, 201)
    api.put("/api/policies/%2F/quick", {"pattern": "stored$", "definition": {"max-length": 9}})
    channel.basic_consume(mark + "busy", lambda *_: None, exclusive=True)
    api.publish(mark + "busy")
    api.publish(mark + "stored")
    wait_for(lambda: api.get(f"/api/queues/%2F/{part(mark + 'busy')}")["messages_ready"] == 0)

    rows = {row["name"]: row for row in api.get("/api/queues", name=mark)}
    assert len(rows) == 3
    for one, row in rows.items():
        single = api.get(f"/api/queues/%2F/{part(one)}")
        assert {key: single[key] for key in row if key in single} == row
        assert set(single) - set(row) <= {"consumer_details", "incoming", "deliveries", "counters",
                                          "idle_since"}  # fmt: skip
    api.delete("/api/policies/%2F/quick")


def test_lists_are_sorted_by_anything(api: Api, name: Callable[[str], str]) -> None:
    mark = name("sorted")
    for count in (2, 0, 1):
        api.put(f"/api/queues/%2F/{mark}-{count}", {})
        for _ in range(count):
            api.publish(f"{mark}-{count}")

    def names(**query: str) -> list[str]:
        rows = api.get("/api/queues", name=mark, columns="name", **query)
        return [row["name"][-1] for row in rows]

    assert names(sort="messages") == ["0", "1", "2"]
    assert names(sort="messages", sort_reverse="true") == ["2", "1", "0"]
    assert names(sort="message_stats.publish", sort_reverse="true") == ["2", "1", "0"]
    assert names(sort="nonsense") == ["0", "1", "2"]


def note(running: RunningBroker, ahead: float) -> None:
    """Let the broker note its counters as if so many seconds had passed."""

    async def tick(server: Server) -> None:
        assert server.http is not None
        await server.http.opened()
        assert server.http.management is not None
        sampler = server.http.management.sampler
        now = sampler._now
        sampler._now = lambda: now() + ahead
        try:
            await sampler.tick()
        finally:
            sampler._now = now

    running._running().call(tick)


def test_rates_come_from_two_samples(api: Api, managed: RunningBroker, queue: str) -> None:
    path = f"/api/queues/%2F/{queue}"
    api.get(path)  # somebody looks

    note(managed, ahead=10)
    for _ in range(10):
        api.publish(queue)
    note(managed, ahead=15)

    row = api.get(path, msg_rates_age=20, msg_rates_incr=5)
    published = row["message_stats"]["publish_details"]
    assert published["rate"] == pytest.approx(2.0, rel=0.2)
    assert published["samples"][0]["sample"] == 10
    assert len(published["samples"]) == 5
    assert row["messages_details"]["rate"] == pytest.approx(2.0, rel=0.2)


def test_the_first_listing_shows_rates() -> None:
    with run_broker(sync=False) as running:
        note(running, ahead=10)
        parameters = pika.URLParameters(running.amqp_url)
        with pika.BlockingConnection(parameters) as connection, Api(running) as api:
            channel = connection.channel()
            channel.queue_declare("busy")
            channel.confirm_delivery()
            for _ in range(10):
                channel.basic_publish("amq.direct", "", b"x")
                channel.basic_publish("", "busy", b"x")
            note(running, ahead=15)

            [queue] = api.get("/api/queues")
            [of_channel] = api.get("/api/channels")
            [of_connection] = api.get("/api/connections")
            exchange = api.get("/api/exchanges/%2F/amq.direct")
    assert queue["message_stats"]["publish_details"]["rate"] == pytest.approx(2.0, rel=0.2)
    assert queue["messages_details"]["rate"] == pytest.approx(2.0, rel=0.2)
    assert of_channel["message_stats"]["publish_details"]["rate"] == pytest.approx(4.0, rel=0.2)
    assert of_connection["recv_oct_details"]["rate"] > 0
    published = exchange["message_stats"]["publish_in_details"]
    assert published["rate"] == pytest.approx(2.0, rel=0.2)


def test_unwatched_things_are_remembered_for_a_rate_and_no_longer() -> None:
    with run_broker(sync=False) as running, Api(running) as api:
        api.put("/api/queues/%2F/idle", {}, 201)
        for ahead in range(100, 200, 10):
            note(running, ahead=ahead)

        async def kept(server: Server) -> list[int]:
            assert server.http is not None and server.http.management is not None
            histories = server.http.management.sampler._singles.values()
            return [len(history) for history in histories]

        assert max(running._running().call(kept)) == 2


def test_totals_are_sampled_without_requests(managed: RunningBroker, api: Api) -> None:
    overview = api.get("/api/overview", msg_rates_age=60, msg_rates_incr=5)
    wait_for(lambda: api.get("/api/overview", msg_rates_age=60, msg_rates_incr=5)
             ["message_stats"]["publish_details"]["samples"])  # fmt: skip
    assert overview["queue_totals"].keys() >= {"messages", "messages_details"}
