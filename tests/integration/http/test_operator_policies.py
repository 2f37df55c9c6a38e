"""Operator policies over HTTP: they bound what users' policies and arguments set, and last."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.server.app import Server
from headrace.testing import RunningBroker, run_broker
from support.http_api import Api

Namer = Callable[[str], str]


def effective(api: Api, queue: str) -> object:
    return api.get(f"/api/queues/%2F/{queue}")["effective_policy_definition"]


def test_an_operator_policy_bounds_what_a_policy_sets(api: Api, queue: str, name: Namer) -> None:
    mine, theirs = name("p"), name("o")
    pattern = {"pattern": f"^{queue}$", "apply-to": "queues"}
    api.put(f"/api/policies/%2F/{mine}", pattern | {"definition": {
        "max-length": 5, "message-ttl": 9000, "dead-letter-exchange": "dead"}}, 201)  # fmt: skip
    path = f"/api/operator-policies/%2F/{theirs}"
    bound = pattern | {"definition": {"max-length": 9, "message-ttl": 100, "expires": 60_000}}
    api.put(path, bound, 201)
    api.put(path, bound, 204)

    row = api.get(f"/api/queues/%2F/{queue}")
    assert (row["policy"], row["operator_policy"]) == (mine, theirs)
    assert row["effective_policy_definition"] == {
        "max-length": 5, "message-ttl": 100, "expires": 60_000, "dead-letter-exchange": "dead",
    }  # fmt: skip
    assert api.get(path) == {"vhost": "/", "name": theirs, "priority": 0, **bound}
    assert theirs in [one["name"] for one in api.get("/api/operator-policies/%2F")]

    api.delete(path)
    assert effective(api, queue) == {
        "max-length": 5, "message-ttl": 9000, "dead-letter-exchange": "dead",
    }  # fmt: skip
    api.get(path, 404)
    api.delete(path, 404)
    api.delete(f"/api/policies/%2F/{mine}")


def test_an_operator_policy_alone_limits_a_queue(api: Api, queue: str, name: Namer) -> None:
    for payload in "abc":
        api.publish(queue, payload)
    path = f"/api/operator-policies/%2F/{name('o')}"
    api.put(path, {"pattern": f"^{queue}$", "definition": {"max-length": 2}}, 201)
    assert [one["payload"] for one in api.take(queue, 5)] == ["b", "c"]
    assert api.get(f"/api/queues/%2F/{queue}?columns=operator_policy")["operator_policy"]
    api.delete(path)


def test_settings_that_limit_nothing_are_refused(api: Api, name: Namer) -> None:
    path = f"/api/operator-policies/%2F/{name('o')}"
    wrong = api.put(path, {"pattern": "x", "definition": {"dead-letter-exchange": "d"}}, 400)
    assert "'dead-letter-exchange' cannot be set by an operator policy" in wrong["reason"]
    assert "max-length" in wrong["reason"]
    through = "/api/parameters/operator_policy/%2F/x"
    refused = api.put(through, {"value": {"pattern": "x", "definition": {"expires": 1}}}, 400)
    assert "/api/operator-policies/" in refused["reason"]


def test_only_administrators_set_them(api: Api, managed: RunningBroker, name: Namer) -> None:
    user = name("u")
    api.put(f"/api/users/{user}", {"password": "pw", "tags": "policymaker"}, 201)
    api.put(f"/api/permissions/%2F/{user}", {"configure": ".*", "write": ".*", "read": ".*"}, 201)
    body = {"pattern": "x", "definition": {"max-length": 2}}
    with Api(managed, user, "pw") as maker:
        maker.put(f"/api/policies/%2F/{name('p')}", body, 201)
        maker.put(f"/api/operator-policies/%2F/{name('o')}", body, 401)


def test_they_are_durable_and_part_of_definitions(tmp_path: Path) -> None:
    body = {"pattern": "^q", "apply-to": "queues", "priority": 3, "definition": {"max-length": 2}}
    with run_broker(data_dir=tmp_path) as running, Api(running) as api:
        api.put("/api/operator-policies/%2F/cap", body, 201)
        api.put("/api/queues/%2F/q", {"durable": True}, 201)
    with run_broker(data_dir=tmp_path) as running, Api(running) as api:
        assert effective(api, "q") == {"max-length": 2}
        exported = api.get("/api/definitions")
        of_vhost = api.get("/api/definitions/%2F")
    assert exported["policies"] == []
    assert {"vhost": "/", "component": "operator_policy", "name": "cap", "value": body} in (
        exported["parameters"]
    )
    assert {"component": "operator_policy", "name": "cap", "value": body} in of_vhost["parameters"]
    for path, content in (("/api/definitions", exported), ("/api/definitions/%2F", of_vhost)):
        with run_broker() as running, Api(running) as api:
            api.post(path, content, 204)
            assert effective(api, "q") == {"max-length": 2}


def test_a_stored_value_that_is_no_policy_does_not_stop_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before there were operator policies such a parameter was kept as it came."""
    with run_broker(data_dir=tmp_path) as running:

        async def keep(server: Server) -> None:
            assert server.broker is not None
            server.broker.parameters.set("/", "operator_policy", "odd", {"x": 1})

        running._running().call(keep)
    with (
        caplog.at_level(logging.ERROR),
        run_broker(data_dir=tmp_path) as running,
        Api(running) as api,
    ):
        assert api.get("/api/operator-policies") == []
    assert "ignored the invalid operator policy 'odd' of vhost '/'" in caplog.text
