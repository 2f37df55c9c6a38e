"""Clients for Node, Go and Java play the same scenarios and must all report the same."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from support.foreign_program import run_scenario

# the first test of a client may have to download and build it
pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
Scenario = Callable[[str], object]

EXPECTED = {
    "topology": {"declared": 0, "counted": 2, "got": "a", "left": 1, "purged": 1, "empty": True,
                 "deleted": 0},
    "confirms": {"stored": 100, "outcomes": ["ack", "nack"]},
    "settle": {"order": ["a", "b", "b*", "c"], "dead": "c", "reason": "rejected", "from": True},
    "returns": {"events": ["312 NO_ROUTE lost", "ack"]},
    "prefetch": {"held": 2, "left": 3, "then": 4},
    "reply_to": {"reply": "SHOUT", "correlation": "42"},
    "channel_error": {"code": 404, "named": True, "reopened": True},
    "connection_error": {"code": 530},
    "cancelled": {"cancelled": True},
    "headers": {"same": True},
    "large": {"same": True},
    "heartbeat": {"alive": True},
    "cut": {"bodies": ["held", "held*"]},
}  # fmt: skip
ONLY = {
    "node": {"callbacks": {"seen": ["one", "two", "three"]}},
    "go": {
        "transaction": {"before": 0, "after": ["done"]},
        "deferred": {"acked": True, "tags": [1, 2, 3]},
        "context": {"seen": ["one"], "cancelled": True},
    },
    "java": {
        "transaction": {"before": 0, "after": ["done"]},
        "recovery": {"bodies": ["before", "after"]},
        "rpc": {"reply": "SHOUT"},
        "passive": {"code": 404, "reopened": True},
    },
}


@pytest.mark.parametrize("which", EXPECTED)
def test_every_client_sees_the_same_broker(scenario: Scenario, which: str) -> None:
    assert scenario(which) == EXPECTED[which]


@pytest.mark.parametrize(
    ("client", "which"),
    [(client, which) for client, only in ONLY.items() for which in only],
    indirect=["client"],
)
def test_what_only_one_client_offers_works_too(scenario: Scenario, client: str, which: str) -> None:
    assert scenario(which) == ONLY[client][which]


def test_a_stopping_broker_closes_its_connections_with_a_reason(
    program: list[str], request: pytest.FixtureRequest
) -> None:
    if os.environ.get("AMQP_TEST_PORT"):
        pytest.skip("the broker at AMQP_TEST_PORT is not ours to stop")
    broker = request.getfixturevalue("start_broker")()

    report = run_scenario(program, "broker_stop", broker.url, "unused", {"stop": broker.stop})

    assert report == {"code": 320}
