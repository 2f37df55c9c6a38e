"""What can be declared over HTTP, and how mistakes are told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pika
import pytest

from headrace.testing import RunningBroker, run_broker
from support.http_api import Api, part

Namer = Callable[[str], str]


def test_a_queue_is_made_once_and_found_again(api: Api, name: Namer) -> None:
    path = f"/api/queues/%2F/{name('q')}"
    api.put(path, {"durable": True, "arguments": {"x-max-length": 10}}, 201)
    api.put(path, {"durable": True, "arguments": {"x-max-length": 10}}, 204)

    row = api.get(path)
    assert row["durable"] is True
    assert row["arguments"] == {"x-max-length": 10}
    api.delete(path)
    assert api.get(path, 404) == {"error": "Object Not Found", "reason": "Not Found"}


def test_a_different_declaration_is_refused_with_the_amqp_text(api: Api, queue: str) -> None:
    refusal = api.put(f"/api/queues/%2F/{queue}", {"durable": False}, 400)
    assert refusal["error"] == "bad_request"
    assert refusal["reason"].startswith("inequivalent arg 'durable' for queue")


def test_an_empty_list_stands_for_no_arguments(api: Api, name: Namer) -> None:
    """pyrabbit, and so kombu's manager, writes it that way."""
    api.put(f"/api/queues/%2F/{name('q')}", {"arguments": []}, 201)
    api.put(f"/api/exchanges/%2F/{name('x')}", {"type": "direct", "arguments": []}, 201)


def test_names_may_hold_anything(api: Api, name: Namer) -> None:
    odd = name('<b>"/ % # ü ')
    api.put(f"/api/queues/%2F/{part(odd)}", {}, 201)
    assert api.get(f"/api/queues/%2F/{part(odd)}")["name"] == odd
    assert odd in [row["name"] for row in api.get("/api/queues/%2F")]
    api.delete(f"/api/queues/%2F/{part(odd)}")


def test_an_exchange_is_made_bound_and_deleted(api: Api, name: Namer, queue: str) -> None:
    exchange = name("x")
    path = f"/api/exchanges/%2F/{exchange}"
    api.put(path, {"type": "topic", "durable": True}, 201)
    assert api.get(path)["type"] == "topic"

    pair = f"/api/bindings/%2F/e/{exchange}/q/{queue}"
    made = api.call("POST", pair, {"routing_key": "k/ x", "arguments": {}})
    assert made.status_code == 201
    assert made.headers["location"] == f"{queue}/k%252F%2Bx"
    [row] = api.get(pair)
    assert (row["routing_key"], row["properties_key"]) == ("k/ x", "k%2F+x")
    assert api.get(f"{path}/bindings/source") == [row]

    api.delete(f"{pair}/{part(row['properties_key'])}")
    assert api.get(pair) == []
    api.delete(path)


def test_a_binding_with_arguments_has_a_key_of_its_own(api: Api, queue: str) -> None:
    pair = f"/api/bindings/%2F/e/amq.headers/q/{queue}"
    api.post(pair, {"routing_key": "", "arguments": {"x-match": "any", "a": 1}}, 201)
    api.post(pair, {"routing_key": "", "arguments": {"x-match": "any", "a": 2}}, 201)

    keys = [row["properties_key"] for row in api.get(pair)]
    assert len(set(keys)) == 2
    assert all(key.startswith("~") and len(key) == 7 for key in keys)
    for key in keys:
        api.delete(f"{pair}/{part(key)}")
    assert api.get(pair) == []


def test_exchanges_are_bound_to_exchanges(api: Api, name: Namer) -> None:
    source, target = name("a"), name("b")
    for one in (source, target):
        api.put(f"/api/exchanges/%2F/{one}", {"type": "fanout"}, 201)
    api.post(f"/api/bindings/%2F/e/{source}/e/{target}", {}, 201)
    [row] = api.get(f"/api/exchanges/%2F/{target}/bindings/destination")
    assert (row["source"], row["destination_type"]) == (source, "exchange")


def test_what_every_vhost_has_cannot_be_deleted(api: Api) -> None:
    assert api.delete("/api/exchanges/%2F/amq.direct", 401)["error"] == "not_authorised"
    assert api.delete("/api/exchanges/%2F/amq.default", 401)["error"] == "not_authorised"


def test_a_policy_applies_and_goes(api: Api, queue: str, name: Namer) -> None:
    path = f"/api/policies/%2F/{name('p')}"
    body = {"pattern": f"^{queue}$", "definition": {"max-length": 5}, "apply-to": "queues"}
    api.put(path, body, 201)
    api.put(path, body, 204)
    row = api.get(f"/api/queues/%2F/{queue}")
    assert row["effective_policy_definition"] == {"max-length": 5}

    api.delete(path)
    assert api.get(f"/api/queues/%2F/{queue}")["policy"] is None
    wrong = api.put(path, {"pattern": "x", "definition": {"nope": 1}}, 400)
    assert "'nope' is not a recognised policy setting" in wrong["reason"]


def test_if_empty_and_if_unused_are_heeded(api: Api, queue: str) -> None:
    api.publish(queue)
    refusal = api.delete(f"/api/queues/%2F/{queue}?if-empty=true", 400)
    assert refusal["reason"] == f"queue '{queue}' in vhost '/' not empty"
    api.delete(f"/api/queues/%2F/{queue}/contents")
    api.delete(f"/api/queues/%2F/{queue}?if-empty=true")


def test_bad_bodies_get_one_clear_line(api: Api, queue: str) -> None:
    path = f"/api/queues/%2F/{queue}"
    assert api.call("PUT", path, [1]).json() == {"error": "bad_request", "reason": "not_json"}
    assert api.call("PUT", path, content=b"{nope").json()["reason"] == "not_json"
    deep = b'{"arguments":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert api.call("PUT", path, content=deep).status_code == 400
    wrong = api.put(path, {"durable": "maybe"}, 400)
    assert wrong["reason"] == "'durable' must be true or false"


def test_tracing_is_refused_because_there_is_none(api: Api, name: Namer) -> None:
    vhost = name("v")
    refusal = api.put(f"/api/vhosts/{vhost}", {"tracing": True}, 400)
    assert "message tracing is not supported" in refusal["reason"]
    api.get(f"/api/vhosts/{vhost}", 404)
    api.put(f"/api/vhosts/{vhost}", {"tracing": False}, 201)
    api.delete(f"/api/vhosts/{vhost}")


def test_vhosts_come_and_go_with_everything_in_them(api: Api, name: Namer) -> None:
    vhost = name("v")
    api.put(f"/api/vhosts/{vhost}", {"description": "for tests", "tags": "a,b"}, 201)
    api.put(f"/api/vhosts/{vhost}", {}, 204)
    row = api.get(f"/api/vhosts/{vhost}")
    assert (row["description"], row["tags"]) == ("for tests", ["a", "b"])

    api.put(f"/api/queues/{vhost}/q", {"durable": True}, 201)
    api.delete(f"/api/vhosts/{vhost}")
    api.get(f"/api/queues/{vhost}", 404)
    api.delete(f"/api/vhosts/{vhost}", 404)


def test_what_is_kept_survives_a_restart() -> None:
    with run_broker() as broker:
        with Api(broker) as api:
            api.put("/api/vhosts/v", {"description": "words", "tags": ["t"]}, 201)
            api.put("/api/global-parameters/g", {"value": [1, {"a": None, "b": 1.5}]}, 201)
            api.put("/api/parameters/c/v/n", {"value": "x"}, 201)
            assert api.get("/api/cluster-name") == {"name": "headrace@localhost"}
            api.put("/api/cluster-name", {"name": "mill@river"}, 204)
        broker.restart()
        with Api(broker) as api:
            assert api.get("/api/overview")["cluster_name"] == "mill@river"
            assert {"name": "cluster_name", "value": "mill@river"} in api.get(
                "/api/global-parameters"
            )
            assert api.get("/api/vhosts/v")["description"] == "words"
            assert api.get("/api/global-parameters/g")["value"] == [1, {"a": None, "b": 1.5}]
            assert api.get("/api/parameters/c/v/n")["value"] == "x"
            api.delete("/api/vhosts/v")
        broker.restart()
        with Api(broker) as api:
            assert api.get("/api/parameters") == []


def test_parameters_are_kept(api: Api, name: Namer) -> None:
    chosen = name("g")
    api.put(f"/api/global-parameters/{chosen}", {"value": {"a": [1, "x", None]}}, 201)
    assert api.get(f"/api/global-parameters/{chosen}")["value"] == {"a": [1, "x", None]}
    api.delete(f"/api/global-parameters/{chosen}")
    path = f"/api/parameters/shovel/%2F/{chosen}"
    api.put(path, {"value": {"src": "q"}}, 201)
    assert api.get(path)["component"] == "shovel"
    api.delete(path)
    api.get(path, 404)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/vhosts/%ff%00", {}),
        ("POST", "/api/users/bulk-delete", {"users": [{}]}),
        ("POST", "/api/users/bulk-delete", {"users": [["guest"]]}),
        ("PUT", "/api/cluster-name", {"name": "\ud800"}),
        ("PUT", "/api/cluster-name", {"name": ""}),
    ],
)
def test_odd_names_are_refused_and_break_nothing(
    api: Api, method: str, path: str, body: dict[str, object]
) -> None:
    assert api.call(method, path, content=json.dumps(body)).status_code == 400
    assert api.call("GET", "/metrics").status_code == 200


def test_metrics_show_a_user_whose_name_is_not_utf8(
    api: Api, managed: RunningBroker, name: Callable[[str], str]
) -> None:
    user = name("u")
    api.put(f"/api/users/{user}%FF", {"password": "p", "tags": ""})
    api.put(f"/api/permissions/%2F/{user}%FF", {"configure": "", "write": "", "read": ""})
    login = b"\0" + user.encode() + b"\xff\0p"
    credentials = pika.PlainCredentials(user, "p")
    credentials.response_for = lambda start: ("PLAIN", login)
    where = pika.ConnectionParameters("127.0.0.1", managed.amqp_port, credentials=credentials)
    connection = pika.BlockingConnection(where)
    try:
        assert api.call("GET", "/metrics/per-object").status_code == 200
        assert user in json.dumps(api.get("/api/connections"))
    finally:
        connection.close()
        api.delete(f"/api/users/{user}%FF")
