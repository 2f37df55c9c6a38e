"""The card of a shared broker. What the broker answers is checked in tests/integration/shared."""

from __future__ import annotations

import json

from playwright.sync_api import Route, expect

from support.console_page import Console

SHARE = {
    "shard": "main", "node": "a", "epoch": 7, "commit": 1234, "seconds_since_commit": 0.4,
    "has_lease": True,
    "nodes": [
        {"node": "a", "state": "active", "address": "10.0.0.1:5672", "commits_behind": 0},
        {"node": "b", "state": "standby", "address": "10.0.0.2:5672", "commits_behind": 3},
    ],
    "last_takeover": {"epoch": 7, "node": "a", "reason": "released",
                      "began": "2026-01-02 03:04:05"},
    "alarms": {"database_slow": "the database is slow or unreachable"},
}  # fmt: skip


def test_a_shared_broker_shows_its_nodes_and_alarms(console: Console) -> None:
    def add_share(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps({**answer.json(), "share": SHARE}))

    expect(console.page.get_by_text("Shared broker")).to_have_count(0)
    console.page.route("**/api/overview?*", add_share)
    console.page.reload()
    for text in ("Shared broker", "2026-01-02 03:04:05 UTC: released", "10.0.0.2:5672",
                 "alarm: the database is slow or unreachable"):  # fmt: skip
        console.sees(text)
