"""Secrets of every kind, planted in one broker, and looked for wherever it says something."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pika
import pytest

from headrace.client import ConnectionFactory, LoginRefused
from headrace.server.http.route_table import TABLE
from support.brokers import Broker
from support.mariadb import PASSWORD, MariaDb

DEFAULT = "planted-Default-2"
USERS = "planted-User-3"
MISTYPED = "planted-Mistyped-4"
SIGNING = "planted-Signing-5"
BODY = "planted-Body-6"
PLANTED = (PASSWORD, DEFAULT, USERS, MISTYPED, SIGNING)


@pytest.fixture
def broker(server: MariaDb, database: str, start_broker: Callable[..., Broker]) -> Broker:
    return start_broker(
        "--engine", f"db={server.url(database)}", "--log-level", "debug", "--default-user", "root",
        env={"HEADRACE_DEFAULT_PASSWORD": DEFAULT},
    )  # fmt: skip


def everything_that_can_be_read(client: httpx.Client) -> Iterator[str]:
    """The answer of every route that is asked without a name, and of a path with each name."""
    known = {"vhost": "%2F", "component": "c", "node": "n", "user": "clerk", "name": "clerk"}
    for route in TABLE.routes:
        if route.method == "GET":
            path = "/".join(
                known.get(part[1:-1], "x") if part.startswith("{") else part
                for part in route.path.split("/")
            )
            answer = client.get(path)
            assert answer.status_code < 500 or "health" in path, (path, answer.text)
            yield answer.text
            yield json.dumps(dict(answer.headers))


def use_it(broker: Broker, client: httpx.Client) -> Iterator[str]:
    """Everything that knows a secret, right and wrong; what was answered."""
    user = {"password": USERS, "tags": "administrator"}
    yield client.put("/api/users/clerk", json=user).text
    grant = {"configure": ".*", "write": ".*", "read": ".*"}
    yield client.put("/api/permissions/%2F/clerk", json=grant).text
    yield client.put("/api/users/clerk/rocketmq-secret", json={"secret": SIGNING}).text
    yield client.put("/api/users/clerk/rocketmq-secret", json={"secret": SIGNING * 99}).text
    yield client.put("/api/users/other", json={"password": USERS, "password_hash": USERS}).text
    yield client.put("/api/users/other", json={"password": [USERS], "tags": ""}).text
    definitions = {"users": [{"name": "third", "password": USERS, "tags": [3]}]}
    yield client.post("/api/definitions", json=definitions).text
    yield client.put("/api/topics/%2F/t", json={"engine": "db"}).text
    yield client.post("/api/login", json={"username": "clerk", "password": USERS}).text
    yield client.post("/api/login", json={"username": "clerk", "password": MISTYPED}).text
    yield client.get("/api/whoami", auth=("clerk", MISTYPED)).text
    broken = base64.b64encode(MISTYPED.encode()).decode()
    yield client.get("/api/whoami", headers={"authorization": f"Basic {broken}"}).text
    yield client.get("/api/whoami", headers={"authorization": f"Bearer {MISTYPED}"}).text
    for password in (USERS, MISTYPED):
        where = pika.ConnectionParameters(
            "127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("clerk", password)
        )
        try:
            connection = pika.BlockingConnection(where)
            connection.channel().queue_declare("q", durable=True)
            connection.channel().basic_publish("", "q", BODY.encode())
            connection.close()
        except pika.exceptions.AMQPConnectionError as error:
            yield repr(error)
        factory = ConnectionFactory("127.0.0.1", broker.native_port, "clerk", password)
        try:
            factory.new_connection().close()
        except LoginRefused as error:
            yield repr(error)


def children(pid: int | None) -> list[str]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for file in found for child in file.read_text().split()]


def test_a_planted_secret_appears_nowhere(broker: Broker) -> None:
    with httpx.Client(
        base_url=f"http://127.0.0.1:{broker.ports['http']}", auth=("root", DEFAULT), timeout=30
    ) as client:
        said = list(use_it(broker, client))
        said += everything_that_can_be_read(client)
    processes = [
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (broker.pid, *children(broker.pid))
    ]
    broker.stop()

    log = broker.log()
    assert "user created" in log and "refused" in log  # it was talkative
    for secret in PLANTED:
        forms = (secret, base64.b64encode(secret.encode()).decode(), quote(secret, safe=""))
        assert not [text for text in said if any(form in text for form in forms)], secret
        assert not any(form in log for form in forms), secret
        assert not [one for one in processes if any(form.encode() in one for form in forms)], secret
    assert BODY not in log
    assert broker.output is not None
    kept = (broker.output.parent / "data" / "meta.db").read_bytes()
    assert not [
        secret for secret in (PASSWORD, DEFAULT, USERS, MISTYPED) if secret.encode() in kept
    ]
