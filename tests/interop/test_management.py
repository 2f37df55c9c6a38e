"""Tools made for RabbitMQ's management API judge ours: rabbitmqadmin, amqpstorm, kombu; and a real
RabbitMQ says which fields an answer must have."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pika
import pytest

from headrace.bench.brokers import RabbitMqBroker, find_rabbitmq
from headrace.testing import RunningBroker, run_broker, wait_for
from support.ports import free_port

pytestmark = pytest.mark.interop

Json: TypeAlias = Any
Admin = Callable[..., str]

# Erlang's own affairs, and what only a cluster or a plugin has.
FOREIGN = ("reductions", "garbage_collection", "backing_queue_status", "erlang", "cowboy", "mnesia",
           "gc_", "context_switches", "io_", "msg_store", "queue_index", "ra_open", "metrics_gc",
           "applications", "socket_opts", "cluster_state", "contexts.[].protocol",
           "mem_used_details", "fd_used_details", "sockets_used_details", "proc_used_details",
           "disk_free_details", "auth_mechanisms", "exchange_types")  # fmt: skip


@pytest.fixture(scope="module")
def managed() -> Iterator[RunningBroker]:
    with run_broker(sync=False) as running:
        yield running


# -- rabbitmqadmin -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def admin(managed: RunningBroker) -> Admin:
    program = shutil.which("rabbitmqadmin")
    if program is None:
        reason = "rabbitmqadmin is not installed (package rabbitmq-server)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)

    def run(*words: str, fails: bool = False) -> str:
        command = [sys.executable, program, "-P", str(managed.http_port), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    "kind",
    ["users", "vhosts", "connections", "channels", "consumers", "nodes", "queues", "exchanges",
     "bindings", "policies", "operator_policies", "parameters", "permissions", "vhost_limits"],
)  # fmt: skip
def test_rabbitmqadmin_lists(admin: Admin, kind: str) -> None:
    admin("list", kind)
    admin("-f", "long", "-d", "3", "list", kind)


def test_rabbitmqadmin_declares_publishes_gets_and_deletes(admin: Admin, tmp_path: Path) -> None:
    assert "3.10.8" in admin("show", "overview")
    admin("declare", "queue", "name=rq", "durable=true", 'arguments={"x-max-length":10}')
    admin("declare", "exchange", "name=rx", "type=topic")
    admin("declare", "binding", "source=rx", "destination=rq", "routing_key=a.#")
    assert "Message published" in admin("publish", "exchange=rx", "routing_key=a.b", "payload=hi")
    assert "NOT routed" in admin("publish", "exchange=rx", "routing_key=b", "payload=hi")
    assert "hi" in admin("get", "queue=rq", "ackmode=ack_requeue_true")
    assert "| rq" in admin("list", "queues", "name", "messages", "arguments")
    assert "True" in admin("get", "queue=rq", "ackmode=ack_requeue_false")
    admin("publish", "exchange=amq.default", "routing_key=rq", "payload=x")
    admin("purge", "queue", "name=rq")
    admin("declare", "policy", "name=rp", "pattern=^rq", 'definition={"max-length":5}',
          "priority=2", "apply-to=queues")  # fmt: skip
    admin("declare", "vhost", "name=rv")
    admin("declare", "user", "name=ru", "password=secret", "tags=management")
    admin("declare", "permission", "vhost=rv", "user=ru", "configure=.*", "write=.*", "read=.*")
    admin("-u", "ru", "-p", "secret", "-V", "rv", "declare", "queue", "name=own")
    assert "own" in admin("-u", "ru", "-p", "secret", "-V", "rv", "list", "queues")
    admin("declare", "vhost_limit", "vhost=rv", "name=max-queues", "value=10")
    admin("declare", "parameter", "component=federation", "name=p", 'value={"a":1}')

    exported = tmp_path / "definitions.json"
    admin("export", str(exported))
    admin("import", str(exported))
    definitions = json.loads(exported.read_text())
    assert {one["name"] for one in definitions["queues"]} >= {"rq", "own"}

    admin("delete", "parameter", "component=federation", "name=p")
    admin("delete", "vhost_limit", "vhost=rv", "name=max-queues")
    admin("delete", "permission", "vhost=rv", "user=ru")
    admin("delete", "user", "name=ru")
    admin("delete", "vhost", "name=rv")
    admin("delete", "policy", "name=rp")
    admin("delete", "binding", "source=rx", "destination_type=queue", "destination=rq",
          "properties_key=a.%23")  # fmt: skip
    admin("delete", "queue", "name=rq")
    admin("delete", "exchange", "name=rx")
    assert "Not found" in admin("delete", "queue", "name=rq", fails=True)


def test_rabbitmqadmin_closes_a_connection(admin: Admin, managed: RunningBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(managed.amqp_url))
    port = connection._impl._transport._sock.getsockname()[1]
    admin("close", "connection", f"name=127.0.0.1:{port} -> 127.0.0.1:{managed.amqp_port}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        for _ in range(50):
            connection.process_data_events(0.1)


# -- libraries -----------------------------------------------------------------------------------


def test_amqpstorms_management_works(managed: RunningBroker) -> None:
    management = pytest.importorskip("amqpstorm.management")
    api = management.ManagementApi(str(managed.http_url), "guest", "guest")
    assert api.whoami()["name"] == "guest"
    assert api.aliveness_test("/")["status"] == "ok"
    assert api.overview()["product_name"] == "Headrace"
    assert len(api.nodes()) == 1
    api.queue.declare("storm", durable=True)
    api.exchange.declare("storm-x", "topic")
    api.queue.bind("storm", "storm-x", "a.b")
    assert len(api.queue.bindings("storm")) == 2
    assert api.basic.publish("body", "a.b", "storm-x")["routed"] is True
    [message] = api.basic.get("storm", requeue=False)
    assert message.body == "body"
    api.queue.purge("storm")
    assert "storm" in [one["name"] for one in api.queue.list(show_all=True)]
    api.queue.unbind("storm", "storm-x", "a.b")
    api.exchange.delete("storm-x")
    api.queue.delete("storm")
    api.user.create("storm-u", "secret", tags="management")
    api.user.set_permission("storm-u", "/", ".*", ".*", ".*")
    assert api.user.get_permission("storm-u", "/")["configure"] == ".*"
    api.user.delete_permission("storm-u", "/")
    api.user.delete("storm-u")
    api.virtual_host.create("storm-v")
    assert api.virtual_host.get("storm-v")["name"] == "storm-v"
    api.virtual_host.delete("storm-v")
    assert api.healthchecks.get()["status"] == "ok"
    assert api.connection.list() == []
    assert api.channel.list() == []


# Its author's host name, and an address that must not answer.
NOT_OURS = ("test_api_cluster_name", "test_api_with_inaccessible")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_amqpstorms_own_suite_passes(tmp_path: Path) -> None:
    """The suite wants port 5672, so it gets an address of its own to find it there."""
    suite = pytest.importorskip("amqpstorm.tests.functional.management")
    host = "127.41.7.2"
    with run_broker(sync=False, host=host, amqp_port=5672) as broker:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
        } | {
            "AMQP_BROKER": "rabbitmq",
            "AMQP_HOST": host,
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": f"amqp://guest:guest@{host}:5672/%2F",
            "AMQP_HTTP_URL": str(broker.http_url),
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
             "-p", "no:headrace", "-k", " and ".join(f"not {name}" for name in NOT_OURS),
             suite.__path__[0]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
        )  # fmt: skip

    assert done.returncode == 0, done.stdout[-4000:]
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= 50, done.stdout[-500:]


# -- the fields of a real RabbitMQ ----------------------------------------------------------------


class Managed(RabbitMqBroker):
    """A private RabbitMQ with its management plugin."""

    http_port = 0

    def _run(self, command: list[str], home: Path, environment: dict[str, str]) -> None:
        self.http_port = free_port()
        with (home / "rabbitmq.conf").open("a") as file:
            file.write(f"management.tcp.port = {self.http_port}\nmanagement.tcp.ip = 127.0.0.1\n")
        (home / "enabled_plugins").write_text("[rabbitmq_management].\n")
        super()._run(command, home, environment)


@pytest.fixture
def emptied(rabbitmq: Managed) -> Iterator[int]:
    """Its port; what the test puts into a vhost of its own is gone afterwards."""
    wait_for(lambda: ask(rabbitmq.http_port, "/api/overview")[0] == 200, timeout=30)
    yield rabbitmq.http_port
    ask(rabbitmq.http_port, "/api/vhosts/dv", "DELETE")


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Managed]:
    program = find_rabbitmq()
    if program is None:
        reason = "RabbitMQ is not installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="headrace-rabbit-") as directory:
        broker = Managed(Path(directory), program)
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


def ask(
    port: int, path: str, method: str = "GET", body: Json = None, login: str = "guest:guest"
) -> tuple[int, Json]:
    token = base64.b64encode(login.encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Basic {token}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            text, status = answer.read(), answer.status
    except urllib.error.HTTPError as error:
        text, status = error.read(), error.code
    return status, json.loads(text) if text else None


def names(value: Json, path: str = "") -> set[str]:
    """Every key in the answer, with the way to it."""
    if isinstance(value, dict):
        found = {path + key for key in value}
        return found.union(*(names(one, f"{path}{key}.") for key, one in value.items()))
    if isinstance(value, list):
        return set().union(*(names(one, f"{path}[].") for one in value))
    return set()


def live_a_little(amqp_port: int) -> pika.BlockingConnection:
    """The same small life in both brokers."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", amqp_port, client_properties={"connection_name": "probe"}
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("x1", "topic", durable=True)
    channel.queue_declare("q1", durable=True, arguments={"x-max-length": 1000})
    channel.queue_bind("q1", "x1", "a.#")
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("q1", lambda *_: None, consumer_tag="probe")
    for _ in range(5):
        channel.basic_publish("x1", "a.b", b"hello", pika.BasicProperties(delivery_mode=2))
    connection.process_data_events(0.2)
    return connection


PATHS = [
    "/api/overview", "/api/nodes", "/api/vhosts", "/api/users", "/api/permissions",
    "/api/exchanges", "/api/exchanges/%2F/x1", "/api/queues", "/api/queues/%2F/q1",
    "/api/bindings", "/api/connections", "/api/channels", "/api/consumers", "/api/definitions",
    "/api/definitions/%2F", "/api/whoami", "/api/aliveness-test/%2F", "/api/auth",
    "/api/queues?page=1&page_size=1&columns=name",
    "/api/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_field_of_rabbitmq_is_missing(rabbitmq: Managed, managed: RunningBroker) -> None:
    theirs, ours = rabbitmq.http_port, managed.http_port or 0
    connections = [live_a_little(rabbitmq.address[1]), live_a_little(managed.amqp_port or 0)]
    try:
        # Its statistics come every five seconds.
        wait_for(lambda: "message_stats" in ask(theirs, "/api/queues/%2F/q1")[1]
                 and "message_stats" in ask(theirs, "/api/channels")[1][0]
                 and "message_stats" in ask(theirs, "/api/overview")[1], timeout=30)  # fmt: skip
        # So do ours of single things, once somebody looks; two of them tell what is idle.
        wait_for(lambda: "idle_since" in ask(ours, "/api/queues/%2F/q1")[1], timeout=30)
        missing = {}
        for path in PATHS:
            their_status, theirs_said = ask(theirs, path)
            our_status, ours_said = ask(ours, path)
            assert their_status == our_status == 200, path
            lost = names(theirs_said) - names(ours_said)
            lost = {one for one in lost if not any(word in one for word in FOREIGN)}
            if lost - {"global_parameters.[].name", "global_parameters.[].value"}:
                missing[path] = sorted(lost)
        assert missing == {}
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_definitions_of_rabbitmq_load_and_go_back(emptied: int) -> None:
    port = emptied
    ask(port, "/api/vhosts/dv", "PUT", {"description": "d", "tags": "a"})
    ask(port, "/api/users/du", "PUT", {"password": "secret", "tags": "management,policymaker"})
    everything = {"configure": ".*", "write": "^a", "read": ".*"}
    ask(port, "/api/permissions/dv/du", "PUT", everything)
    ask(port, "/api/permissions/dv/guest", "PUT", everything | {"write": ".*"})
    definition = {"max-length": 7, "dead-letter-exchange": "dx"}
    body = {"pattern": "^dq-1", "definition": definition, "apply-to": "queues"}
    ask(port, "/api/policies/dv/dp", "PUT", body)
    ask(port, "/api/exchanges/dv/dx", "PUT", {"type": "headers", "durable": True})
    for number in range(200):
        ask(port, f"/api/queues/dv/dq-{number}", "PUT", {"arguments": {"x-expires": 10_000_000}})
        ask(port, f"/api/bindings/dv/e/dx/q/dq-{number}", "POST",
            {"arguments": {"x-match": "any", "n": number}})  # fmt: skip
    _, exported = ask(port, "/api/definitions")

    with run_broker(sync=False) as broker:
        ours = broker.http_port or 0
        assert ask(ours, "/api/definitions", "POST", exported)[0] == 204
        _, back = ask(ours, "/api/definitions")
        assert ask(ours, "/api/whoami", login="du:secret")[1]["name"] == "du"
    for kind in ("queues", "exchanges", "bindings", "policies", "permissions"):
        assert sorted(map(json.dumps, _plain(back[kind]))) == sorted(
            map(json.dumps, _plain(exported[kind]))
        ), kind
    # Hashes of users who have logged in here are ours, which RabbitMQ does not know.
    users = [one for one in back["users"] if one["name"] == "du"]
    assert users == [one for one in exported["users"] if one["name"] == "du"]
    assert ask(port, "/api/vhosts/dv", "DELETE")[0] == 204
    assert ask(port, "/api/users/du", "DELETE")[0] == 204
    assert ask(port, "/api/definitions", "POST", {**back, "users": users})[0] == 204
    assert len(ask(port, f"/api/queues/{quote('dv')}")[1]) == 200
    assert ask(port, "/api/whoami", login="du:secret")[1]["name"] == "du"
    assert ask(port, "/api/users/du", "DELETE")[0] == 204


def _plain(rows: list[dict[str, Json]]) -> list[dict[str, Json]]:
    return [dict(sorted(row.items())) for row in rows]
