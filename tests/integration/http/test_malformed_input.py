"""Whatever is sent to a route, it answers; none of it is the broker's failure."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import httpx
import pytest

from headrace.server.http.route_table import TABLE
from headrace.server.http.router import ApiRoute
from headrace.testing import run_broker

VALUES = [None, True, 0, -1, 2**70, 1.5, "", "x", "a" * 300, "\ud800", "\x00", [], [1], ["x"],
          [[]], [{}], {}, {"a": 1}, {"headers": 1}, {"queue": []}, "((", "(a+)+$", "earliest",
          "ack_requeue_true", "auto"]  # fmt: skip
QUERIES = ["-1", "0", "1", "x", "9" * 30, "(", "name", "a.b.c", "", "true", ",,,"]
LISTS = ["columns", "sort", "page", "page_size", "name", "use_regex", "msg_rates_age",
         "msg_rates_incr", "lengths_age", "lengths_incr"]  # fmt: skip
NAMES = {
    "vhost": ["%2F", "nope", "%ff"],
    "name": ["odd-q", "odd-x", "nope", "amq.default", "%ff%00", "odd_t", "a" * 300],
    "kind": ["q", "e", "z"],
    "source": ["odd-x", "amq.default"],
    "destination": ["odd-q", "odd-x"],
}
# What a good guess would do harm with: the user who asks, and sessions.
LEFT_ALONE = ("/api/login", "/api/permissions", "/api/users/{name}", "/api/topic-permissions")


def label(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        run_broker(sync=False) as broker,
        httpx.Client(base_url=str(broker.http_url), auth=("guest", "guest"), timeout=30) as one,
    ):
        one.put("/api/queues/%2F/odd-q", json={}).raise_for_status()
        one.put("/api/exchanges/%2F/odd-x", json={"type": "topic"}).raise_for_status()
        one.put("/api/topics/%2F/odd_t", json={}).raise_for_status()
        yield one


@pytest.mark.parametrize(
    "route",
    [one for one in TABLE.routes if one.method == "GET" or not one.path.startswith(LEFT_ALONE)],
    ids=label,
)
def test_malformed_input_is_answered(client: httpx.Client, route: ApiRoute) -> None:
    chance = random.Random(label(route))
    for _ in range(12):
        path = "/".join(
            chance.choice(NAMES.get(part[1:-1], ["nope"])) if part.startswith("{") else part
            for part in route.path.split("/")
        )
        query = {name: chance.choice(QUERIES) for name in chance.sample(LISTS, 3)}
        body = {name: chance.choice(VALUES) for name in route.body if chance.random() < 0.8}
        content = None if route.method == "GET" else json.dumps(body).encode()
        answer = client.request(route.method, path, params=query, content=content)
        fine = answer.status_code < 500 or (answer.status_code == 503 and "/health" in path)
        assert fine, (path, query, body, answer.text)
