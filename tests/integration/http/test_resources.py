"""Connections, channels, consumers, users, health, definitions: told, and closed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from headrace import __version__
from headrace.client import ConnectionFactory
from headrace.server.http.api import health
from headrace.store.disk import RealFile
from headrace.testing import RunningBroker, run_broker, wait_for
from support.http_api import Api, Json, part

Namer = Callable[[str], str]


def own(api: Api, channel: BlockingChannel, kind: str = "connections") -> Json:
    """The row of the test's own connection or channel."""
    port = channel.connection._impl._transport._sock.getsockname()[1]
    rows = api.get(f"/api/{kind}")
    key = "peer_port" if kind == "connections" else "connection_details"
    [row] = [one for one in rows
             if (one[key] if kind == "connections" else one[key]["peer_port"]) == port]  # fmt: skip
    return row


def test_a_connection_is_described(api: Api, channel: BlockingChannel) -> None:
    row = own(api, channel)
    assert row["name"] == f"127.0.0.1:{row['peer_port']} -> 127.0.0.1:{row['port']}"
    assert (row["user"], row["vhost"], row["state"]) == ("guest", "/", "running")
    assert (row["protocol"], row["auth_mechanism"]) == ("AMQP 0-9-1", "PLAIN")
    assert row["client_properties"]["product"] == "Pika Python Client Library"
    assert row["recv_oct"] > 0 and row["send_oct"] > 0 and row["channels"] == 1
    assert api.get(f"/api/connections/{part(row['name'])}")["name"] == row["name"]


def test_a_native_connection_reports_its_client_properties() -> None:
    with run_broker() as broker, ConnectionFactory(port=broker.native_port or 0).new_connection():
        [row] = httpx.get(f"{broker.http_url}/api/connections", auth=("guest", "guest")).json()

    process = f"{Path(sys.argv[0]).name}[{os.getpid()}]"
    assert row["client_properties"] == {
        "product": "headrace-python", "version": __version__, "process": process,
    }  # fmt: skip


def test_a_closed_connection_hears_the_reason(api: Api, channel: BlockingChannel) -> None:
    path = f"/api/connections/{part(own(api, channel)['name'])}"
    answer = api.call("DELETE", path, headers={"x-reason": "moving house"})
    assert answer.status_code == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        for _ in range(50):
            channel.connection.process_data_events(0.1)
    assert closed.value.reply_code == 320
    assert "moving house" in closed.value.reply_text
    wait_for(lambda: api.call("GET", path).status_code == 404)


def test_a_channel_and_its_consumer_are_described(
    api: Api, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="me")
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    wait_for(lambda: api.get(f"/api/queues/%2F/{queue}")["messages_unacknowledged"] == 3)

    row = own(api, channel, "channels")
    assert (row["consumer_count"], row["prefetch_count"]) == (1, 7)
    assert row["messages_unacknowledged"] == 3
    assert row["message_stats"]["publish"] == 3
    assert row["message_stats"]["deliver"] == 3
    single = api.get(f"/api/channels/{part(row['name'])}")
    assert [one["consumer_tag"] for one in single["consumer_details"]] == ["me"]
    of_connection = api.get(f"/api/connections/{part(row['connection_details']['name'])}/channels")
    assert [one["number"] for one in of_connection] == [row["number"]]

    [consumer] = [one for one in api.get("/api/consumers/%2F") if one["queue"]["name"] == queue]
    assert (consumer["consumer_tag"], consumer["ack_required"]) == ("me", True)
    assert consumer["channel_details"]["name"] == row["name"]
    assert consumer["channel_details"]["client"].startswith("Pika Python Client Library")
    assert consumer["channel_details"]["connected_at"] > 1_600_000_000_000
    assert own(api, channel)["publishes_to"] == [{"exchange": "", "routing_key": queue}]
    detail = api.get(f"/api/queues/%2F/{queue}")
    assert [one["consumer_tag"] for one in detail["consumer_details"]] == ["me"]
    assert detail["message_stats"]["deliver"] == 3


def test_native_connections_are_there_too(api: Api, managed: RunningBroker, queue: str) -> None:
    with ConnectionFactory(port=managed.native_port or 0).new_connection() as connection:
        channel = connection.create_channel()
        channel.basic_publish("", queue, None, b"native")
        rows = api.get("/api/connections")
        [row] = [one for one in rows if one["protocol"] == "Headrace native"]
        assert row["channels"] == 1
        api.get("/api/channels")


def test_users_are_made_changed_and_deleted(api: Api, managed: RunningBroker, name: Namer) -> None:
    user = name("u")
    api.put(f"/api/users/{user}", {"password": "one", "tags": "monitoring,policymaker"}, 201)
    row = api.get(f"/api/users/{user}")
    assert row["tags"] == ["monitoring", "policymaker"]
    assert "one" not in json.dumps(row)
    with Api(managed, user, "one") as client:
        assert client.get("/api/whoami") == {"name": user, "tags": ["monitoring", "policymaker"]}
    api.put(f"/api/users/{user}", {"password": "two", "tags": ""}, 204)
    assert api.put(f"/api/users/{user}", {"password": "x"}, 400)["reason"] == "tags_not_present"

    api.put(f"/api/permissions/%2F/{user}", {"configure": "a", "write": "b", "read": "c"}, 201)
    assert api.get(f"/api/users/{user}/permissions") == [
        {"user": user, "vhost": "/", "configure": "a", "write": "b", "read": "c"}
    ]
    api.put(f"/api/topic-permissions/%2F/{user}",
            {"exchange": "amq.topic", "write": "^a", "read": ""}, 201)  # fmt: skip
    assert api.get(f"/api/topic-permissions/%2F/{user}")[0]["exchange"] == "amq.topic"
    api.put(f"/api/user-limits/{user}/max-connections", {"value": 3})
    assert api.get(f"/api/user-limits/{user}") == [{"user": user, "value": {"max-connections": 3}}]
    api.delete(f"/api/permissions/%2F/{user}")
    api.delete(f"/api/permissions/%2F/{user}", 404)
    api.delete(f"/api/users/{user}")
    api.get(f"/api/users/{user}", 404)


def test_rabbitmqs_hashes_are_taken(api: Api, managed: RunningBroker, name: Namer) -> None:
    user = name("u")
    # base64(salt + sha256(salt + "secret")) with the salt 01020304
    body = {"password_hash": _sha256_hash("secret"), "tags": "management",
            "hashing_algorithm": "rabbit_password_hashing_sha256"}  # fmt: skip
    api.put(f"/api/users/{user}", body, 201)
    with Api(managed, user, "secret") as client:
        assert client.get("/api/whoami")["name"] == user
    api.delete(f"/api/users/{user}")


def _sha256_hash(password: str) -> str:
    import base64
    import hashlib

    salt = b"\x01\x02\x03\x04"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def test_a_user_cannot_delete_itself(api: Api) -> None:
    assert "delete it as another administrator" in api.delete("/api/users/guest", 400)["reason"]


def test_limits_of_vhosts_hold(api: Api, managed: RunningBroker, name: Namer) -> None:
    vhost = name("v")
    api.put(f"/api/vhosts/{vhost}")
    api.put(f"/api/vhost-limits/{vhost}/max-queues", {"value": 1}, 204)
    api.put(f"/api/queues/{vhost}/one", {}, 201)
    assert api.call("PUT", f"/api/queues/{vhost}/two", {}).status_code in (400, 401)
    api.delete(f"/api/vhost-limits/{vhost}/max-queues")
    api.put(f"/api/queues/{vhost}/two", {}, 201)
    api.delete(f"/api/vhosts/{vhost}")


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/api/aliveness-test/%2F", "/api/healthchecks/node", "/api/health/checks/alarms",
     "/api/health/checks/local-alarms", "/api/health/checks/virtual-hosts",
     "/api/health/checks/node-is-quorum-critical", "/api/health/checks/protocol-listener/amqp",
     "/api/health/checks/certificate-expiration/1/months"],
)  # fmt: skip
def test_a_healthy_broker_reports_healthy(api: Api, path: str) -> None:
    assert api.get(path)["status"] == "ok"


def test_a_missing_listener_fails_its_health_check(api: Api, managed: RunningBroker) -> None:
    assert api.get(f"/api/health/checks/port-listener/{managed.http_port}")["status"] == "ok"
    assert api.get("/api/health/checks/port-listener/1", 503)["missing"] == 1
    assert api.get("/api/health/checks/protocol-listener/mqtt", 503)["status"] == "failed"


def test_an_alarm_fails_the_checks_and_holds_publishers_back() -> None:
    with run_broker(sync=False, disk_free_limit=2**60) as broker, Api(broker) as api:
        answer = api.get("/api/health/checks/alarms", 503)
        assert answer["alarms"][0]["resource"] == "disk"
        assert api.get("/healthz")["alarm"] == "low on disk"
        body = {"routing_key": "q", "payload": "", "payload_encoding": "string"}
        refusal = api.post("/api/exchanges/%2F/amq.default/publish", body, 503)
        assert refusal["reason"] == "publishers are blocked: low on disk"


def test_work_that_waits_for_the_log_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Event()
    is_waiting = Event()
    sync = RealFile.sync

    def slow(file: RealFile) -> None:
        is_waiting.set()
        assert gate.wait(30)
        sync(file)

    body = {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload": "x",
            "payload_encoding": "string"}  # fmt: skip
    with run_broker() as broker, Api(broker) as api, ThreadPoolExecutor() as pool:
        api.put("/api/queues/%2F/q", {"durable": True}, 201)
        monkeypatch.setattr(RealFile, "sync", slow)
        publish = pool.submit(api.post, "/api/exchanges/%2F/amq.default/publish", body)
        try:
            assert is_waiting.wait(30)
            assert api.get("/healthz")["status"] == "ok"  # slow is not ill
            monkeypatch.setattr(health, "LONGEST_WAIT_SECONDS", 0.0)
            answer = api.get("/healthz", 503)
        finally:
            gate.set()
        assert answer["reason"] == "work has waited 0 s for the log"
        assert publish.result(30)["routed"]
        wait_for(lambda: api.call("GET", "/healthz").status_code == 200)  # idle: nothing waits


def test_definitions_go_out_and_come_in_again(name: Namer) -> None:
    with run_broker(sync=False) as first, Api(first) as api:
        api.put("/api/vhosts/v", {"description": "d"})
        api.put("/api/users/u", {"password": "secret", "tags": "management"})
        api.put("/api/permissions/v/u", {"configure": ".*", "write": ".*", "read": ".*"})
        api.put("/api/queues/v/q", {"durable": True, "arguments": {"x-max-length": 9}})
        api.put("/api/queues/v/transient", {})
        api.put("/api/exchanges/v/x", {"type": "headers", "durable": True})
        api.post("/api/bindings/v/e/x/q/q", {"arguments": {"x-match": "all", "a": [1, {"b": 2}]}})
        api.put("/api/policies/v/p", {"pattern": "^q", "definition": {"expires": 100000}})
        api.put("/api/global-parameters/g", {"value": {"z": 1}})
        api.put("/api/vhost-limits/v/max-queues", {"value": 100})
        exported = api.get("/api/definitions")
        of_vhost = api.get("/api/definitions/v")
    assert [(one["name"], one["durable"]) for one in exported["queues"]] == [
        ("q", True), ("transient", False),
    ]  # fmt: skip
    assert "vhost" not in of_vhost["queues"][0]

    with run_broker(sync=False) as second, Api(second) as api:
        api.post("/api/definitions", exported, 204)
        api.post("/api/definitions", exported, 204)
        again = api.get("/api/definitions")
        with Api(second, "u", "secret") as user:
            assert user.get("/api/whoami")["name"] == "u"
        assert again == exported

        api.put("/api/vhosts/w")
        api.post("/api/definitions/w", of_vhost, 204)
        assert [row["name"] for row in api.get("/api/queues/w")] == ["q", "transient"]
        upload = {"file": ("defs.json", json.dumps(exported), "application/json")}
        answer = httpx.post(f"{second.http_url}/api/definitions", files=upload,
                            auth=("guest", "guest"))  # fmt: skip
        assert answer.status_code == 204


@pytest.mark.parametrize("body", [{"queues": 7}, {"queues": [{}]}, {"users": [{"name": ""}]}])
def test_bad_definitions_are_refused(api: Api, body: object) -> None:
    assert api.post("/api/definitions", body, 400)["error"] == "bad_request"


def test_the_page_or_how_to_build_it_is_at_the_root(raw: httpx.Client) -> None:
    answer = raw.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert raw.get("/no-such-file.js").status_code == 404
    assert raw.get("/assets/..%2f..%2f__init__.py").status_code == 404


def test_openapi_describes_every_route(raw: httpx.Client) -> None:
    from headrace.server.http.route_table import TABLE

    document = raw.get("/api/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items()
                 for method in methods}  # fmt: skip
    assert described == {(route.method, route.path) for route in TABLE.routes}


def test_an_unknown_path_and_method_are_refused(api: Api) -> None:
    assert api.get("/api/nope", 404)["error"] == "Object Not Found"
    assert api.call("POST", "/api/overview", {}).status_code == 405
    assert api.call("HEAD", "/api/overview").status_code == 200


def test_the_node_has_a_history_of_memory_disk_and_confirms(
    api: Api, channel: BlockingChannel, queue: str
) -> None:
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", queue, b"x", persistent)

    def samples() -> Json:
        [row] = api.get("/api/nodes?node_stats_age=60&node_stats_incr=5&samples=known")
        return row if row["mem_used_details"]["samples"] else {}

    row = wait_for(samples)
    assert row["mem_used_details"]["samples"][0]["sample"] > 1_000_000
    assert row["disk_free_details"]["samples"][0]["sample"] > 1_000_000
    assert {"confirm_p50_us", "confirm_p99_us"} <= row.keys()
