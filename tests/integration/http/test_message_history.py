"""What became of one message, told over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.testing import run_broker, wait_for
from support.http_api import Api


def events(api: Api, queue: str, offset: int) -> list[dict[str, Any]]:
    told = api.get(f"/api/queues/%2F/{queue}/events", offset=offset)
    found: list[dict[str, Any]] = told["events"]
    return found


def test_the_history_of_one_message_is_listed_in_order() -> None:
    with run_broker(sync=False, events=True) as broker, Api(broker) as api:
        for queue in ("q", "other"):
            api.put(f"/api/queues/%2F/{queue}", {"durable": True})
        for number in range(3):
            api.publish("q", str(number), delivery_mode=2)
            api.publish("other", str(number), delivery_mode=2)
        api.take("q", 1, "ack_requeue_true")
        api.take("q", 2, "ack_requeue_false")

        told = wait_for(lambda: events(api, "q", 0)[1:] and events(api, "q", 0))
        assert [one["kind"] for one in told] == ["redelivered", "acknowledged"]
        assert told[0]["time"] <= told[1]["time"]
        assert [one["kind"] for one in events(api, "q", 1)] == ["acknowledged"]
        assert events(api, "q", 2) == []
        assert events(api, "other", 0) == []


def test_a_recreated_queue_has_no_old_messages() -> None:
    with run_broker(sync=False, events=True) as broker, Api(broker) as api:
        api.put("/api/queues/%2F/q", {"durable": True})
        api.publish("q", "a", delivery_mode=2)
        api.take("q")
        wait_for(lambda: events(api, "q", 0))
        api.delete("/api/queues/%2F/q")
        api.put("/api/queues/%2F/q", {"durable": True})
        assert events(api, "q", 0) == []


def test_without_events_the_answer_says_that_none_are_noted(api: Api, queue: str) -> None:
    told = api.get(f"/api/queues/%2F/{queue}/events", offset=0)
    assert told == {"noted": False, "events": [], "whole": True}


@pytest.mark.parametrize("query", [{}, {"offset": "x"}, {"offset": -1}])
def test_a_message_must_be_named(api: Api, queue: str, query: dict[str, object]) -> None:
    api.get(f"/api/queues/%2F/{queue}/events", status=400, **query)
