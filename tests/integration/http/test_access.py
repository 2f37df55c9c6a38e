"""Who gets in, and who does not: passwords, tags, vhosts, sessions, other sites, floods."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

from headrace.server.http.route_table import TABLE
from headrace.server.http.router import ANYBODY, ENTER, SEE, AccessRule
from headrace.testing import RunningBroker, run_broker, wait_for
from support.http_api import Api, part

Namer = Callable[[str], str]
RULED = [route for route in TABLE.routes if route.rule.tag is not None]


def ids(route: object) -> str:
    return f"{route.method} {route.path}"  # type: ignore[attr-defined]


def filled(path: str) -> str:
    """A path with something for every variable."""
    return "/".join("%2F" if one == "{vhost}" else "zz" if one.startswith("{") else one
                    for one in path.split("/"))  # fmt: skip


@pytest.fixture(scope="module")
def nobody(managed: RunningBroker) -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, base_url=str(managed.http_url)) as client:
        yield client


@pytest.fixture(scope="module")
def users(managed: RunningBroker) -> Iterator[dict[str, Api]]:
    """One user per tag, each with no permissions at all."""
    clients = {}
    with Api(managed) as admin:
        for tag in ("", "management", "policymaker", "monitoring", "administrator"):
            user = f"only-{tag or 'none'}"
            admin.put(f"/api/users/{user}", {"password": "p", "tags": tag})
            clients[tag] = Api(managed, user, "p")
    yield clients
    for client in clients.values():
        client.__exit__(None, None, None)


def test_every_route_has_a_rule_that_makes_sense() -> None:
    for route in TABLE.routes:
        assert isinstance(route.rule, AccessRule), ids(route)
        assert route.rule.tag in (None, "management", "policymaker", "monitoring", "administrator")
        if route.rule.vhost is not None:
            assert route.rule.vhost in (SEE, ENTER)
            assert "{vhost}" in route.path, ids(route)
        if "{vhost}" in route.path:
            # Who names a vhost may enter or see it, or is above vhosts altogether.
            assert route.rule.vhost is not None or route.rule.tag == "administrator", ids(route)
        if route.method != "GET":
            assert route.rule is not ANYBODY or route.path == "/api/login", ids(route)


def test_few_routes_need_no_login() -> None:
    assert sorted(route.path for route in TABLE.routes if route.rule.tag is None) == [
        "/", "/api/health/checks/active", "/api/login", "/api/metrics", "/api/openapi.json",
        "/assets/{name}", "/healthz", "/metrics", "/{name}",
    ]  # fmt: skip


@pytest.mark.parametrize("route", RULED, ids=ids)
def test_every_route_needs_a_login(route: object, nobody: httpx.Client) -> None:
    answer = nobody.request(route.method, filled(route.path))  # type: ignore[attr-defined]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
    assert answer.json()["error"] == "not_authorized"


@pytest.mark.parametrize("route", RULED, ids=ids)
def test_the_wrong_tag_is_refused(route: object, users: dict[str, Api]) -> None:
    wanted = route.rule.tag  # type: ignore[attr-defined]
    lower = {
        "management": [""],
        "policymaker": ["", "management", "monitoring"],
        "monitoring": ["", "management", "policymaker"],
        "administrator": ["", "management", "policymaker", "monitoring"],
    }[wanted]
    for tag in lower:
        answer = users[tag].call(route.method, filled(route.path), {})  # type: ignore[attr-defined]
        assert (answer.status_code, answer.json()["error"]) == (401, "not_authorised"), tag
        assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize("route", [r for r in RULED if r.rule.vhost == ENTER], ids=ids)
def test_tags_alone_do_not_open_a_vhost(route: object, users: dict[str, Api]) -> None:
    client = users["administrator"]
    answer = client.call(route.method, filled(route.path), {})  # type: ignore[attr-defined]
    assert answer.status_code == 401
    assert answer.json()["reason"] == "User not authorised to access virtual host"


def test_a_user_sees_only_its_own(managed: RunningBroker, api: Api, name: Namer) -> None:
    vhost, user = name("v"), name("u")
    api.put(f"/api/vhosts/{vhost}")
    api.put(f"/api/queues/{vhost}/q", {})
    api.put(f"/api/users/{user}", {"password": "p", "tags": "management"})
    api.put(f"/api/permissions/{vhost}/{user}", {"configure": "^mine", "write": "", "read": ""})
    with Api(managed, user, "p") as limited:
        assert [row["name"] for row in limited.get("/api/vhosts")] == [vhost]
        assert [row["vhost"] for row in limited.get("/api/queues")] == [vhost]
        assert limited.get("/api/connections") == []
        assert "listeners" not in limited.get("/api/overview")
        limited.get("/api/queues/%2F", 401)

        limited.put(f"/api/queues/{vhost}/mine", {}, 201)
        refusal = limited.put(f"/api/queues/{vhost}/theirs", {}, 401)
        assert f"access to queue 'theirs' in vhost '{vhost}' refused" in refusal["reason"]
        limited.delete(f"/api/queues/{vhost}/q", 401)
        get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        limited.post(f"/api/queues/{vhost}/q/get", get, 401)
        limited.get(f"/api/queues/{vhost}/q/browse", 401)
        limited.delete(f"/api/queues/{vhost}/q/contents", 401)
        body = {"routing_key": "q", "payload": "", "payload_encoding": "string"}
        limited.post(f"/api/exchanges/{vhost}/amq.default/publish", body, 401)
        limited.post(f"/api/bindings/{vhost}/e/amq.direct/q/q", {}, 401)
        limited.post(f"/api/queues/{vhost}/q/move", {"destination": {"queue": "mine"}}, 401)
    api.delete(f"/api/users/{user}")
    api.delete(f"/api/vhosts/{vhost}")


def test_who_only_watches_closes_no_connection_of_others(
    channel: BlockingChannel, users: dict[str, Api]
) -> None:
    [row] = users["monitoring"].get("/api/connections")
    path = f"/api/connections/{part(row['name'])}"
    users["management"].delete(path, 404)  # it does not even see it
    users["management"].delete("/api/connections/username/guest", 401)
    for one in (path, "/api/connections/username/guest"):
        assert users["monitoring"].delete(one, 401)["reason"] == "Not administrator user"
    assert channel.is_open

    users["administrator"].delete(path, 204)
    with pytest.raises(ConnectionClosedByBroker, match="320"):
        channel.queue_declare("", exclusive=True)


def test_messages_of_an_exclusive_queue_are_not_shown(
    api: Api, channel: BlockingChannel, name: Namer
) -> None:
    queue = name("q")
    channel.queue_declare(queue, exclusive=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"private")

    for path in ("browse", "browse?settled=true", "events?offset=0"):
        answer = api.call("GET", f"/api/queues/%2F/{queue}/{path}")
        assert answer.status_code == 400  # as RabbitMQ has it
        assert "cannot obtain exclusive access" in answer.json()["reason"]
        assert "private" not in answer.text


def test_limits_are_not_set_as_mere_parameters(api: Api) -> None:
    refused = api.put("/api/parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 1}}, 400)
    assert "/api/vhost-limits/" in refused["reason"]


def test_a_dead_letter_exchange_needs_its_own_permissions(
    managed: RunningBroker, api: Api, name: Namer
) -> None:
    user = name("u")
    api.put(f"/api/users/{user}", {"password": "p", "tags": "management"})
    api.put(f"/api/permissions/%2F/{user}", {"configure": ".*", "write": "^no$", "read": ".*"})
    with Api(managed, user, "p") as limited:
        arguments = {"x-dead-letter-exchange": "amq.fanout"}
        refusal = limited.put(f"/api/queues/%2F/{name('q')}", {"arguments": arguments}, 401)
        assert "access to exchange 'amq.fanout'" in refusal["reason"]
    api.delete(f"/api/users/{user}")


def test_wrong_passwords_are_refused_and_then_locked_out() -> None:
    with (
        run_broker(sync=False) as broker,
        httpx.Client(timeout=60, base_url=str(broker.http_url)) as client,
    ):
        codes = [
            client.get("/api/whoami", auth=("guest", f"wrong{number}")).status_code
            for number in range(12)
        ]
        assert codes[0] == 401
        assert 429 in codes


def test_deleting_a_user_and_changing_a_password_end_sessions(
    managed: RunningBroker, api: Api, raw: httpx.Client, name: Namer
) -> None:
    user = name("u")
    api.put(f"/api/users/{user}", {"password": "p", "tags": "management"})
    answer = raw.post("/api/login", json={"username": user, "password": "p"})
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert raw.get("/api/whoami").json()["name"] == user

    api.put(f"/api/users/{user}", {"password": "other", "tags": "management"})
    assert raw.get("/api/whoami").status_code == 401
    assert raw.post("/api/login", json={"username": user, "password": "other"}).is_success
    api.delete(f"/api/users/{user}")
    assert raw.get("/api/whoami").status_code == 401


def test_a_session_needs_its_token_for_changes(raw: httpx.Client, name: Namer) -> None:
    answer = raw.post("/api/login", json={"username": "guest", "password": "guest"})
    token = answer.json()["csrf_token"]
    assert raw.get("/api/session").json()["csrf_token"] == token
    path = f"/api/queues/%2F/{name('q')}"

    refused = raw.put(path, json={})
    assert (refused.status_code, refused.json()["error"]) == (403, "csrf")
    assert raw.put(path, json={}, headers={"x-csrf-token": "x"}).status_code == 403
    assert raw.put(path, json={}, headers={"x-csrf-token": token}).status_code == 201

    assert raw.delete("/api/login", headers={"x-csrf-token": token}).status_code == 204
    assert raw.get("/api/whoami").status_code == 401


def test_a_login_may_be_a_form(raw: httpx.Client) -> None:
    form = {"username": "guest", "password": "guest"}
    assert raw.post("/api/login", data=form).json()["name"] == "guest"


def test_other_sites_change_nothing(managed: RunningBroker, name: Namer) -> None:
    with httpx.Client(
        timeout=60, base_url=str(managed.http_url), auth=("guest", "guest")
    ) as client:
        path = f"/api/queues/%2F/{name('q')}"
        for origin in ("https://evil.example", "null"):
            answer = client.put(path, json={}, headers={"origin": origin})
            assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin")
        own = str(managed.http_url)
        answer = client.put(path, json={}, headers={"origin": own})
        assert answer.status_code == 201
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_foreign_host_name_is_not_answered(raw: httpx.Client) -> None:
    answer = raw.get("/healthz", headers={"host": "rebound.example:15672"})
    assert (answer.status_code, answer.json()["error"]) == (421, "unknown_host")
    for host in ("localhost:1", "127.0.0.1", "[::1]:15672"):
        assert raw.get("/healthz", headers={"host": host}).status_code == 200


def test_a_host_name_can_be_allowed() -> None:
    with run_broker(sync=False, http_allowed_hosts="queue.example, other.example") as broker:
        answer = httpx.get(f"{broker.http_url}/healthz", headers={"host": "Queue.example:1"})
        assert answer.status_code == 200


def test_answers_carry_strict_headers(raw: httpx.Client) -> None:
    for path in ("/", "/healthz", "/api/overview"):
        headers = raw.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


def test_large_and_compressed_bodies_are_not_read(managed: RunningBroker, name: Namer) -> None:
    with httpx.Client(
        timeout=60, base_url=str(managed.http_url), auth=("guest", "guest")
    ) as client:
        path = f"/api/queues/%2F/{name('q')}"
        answer = client.put(path, content=b"{}", headers={"content-encoding": "gzip"})
        assert answer.status_code == 415
        assert announced(managed, path, 1 << 40).startswith(b"HTTP/1.1 413")

        def endless() -> Iterator[bytes]:
            for _ in range(40):
                yield b" " * (1 << 20)

        try:
            assert client.put(path, content=endless()).status_code == 413
        except httpx.WriteError:
            pass  # it hung up before everything was sent: also an answer


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/api/queues/%2F/large", 1 << 20),
        ("/api/parameters/c/%2F/large", 1 << 20),
        ("/api/reports/%2F/large", 1 << 20),
    ],
)
def test_bodies_have_at_most_1_mib(managed: RunningBroker, path: str, limit: int) -> None:
    assert announced(managed, path, limit + 1).startswith(b"HTTP/1.1 413")


def test_publishes_and_definitions_may_be_large(managed: RunningBroker, name: Namer) -> None:
    queue, vhost = name("q"), name("v")
    with httpx.Client(
        timeout=60, base_url=str(managed.http_url), auth=("guest", "guest")
    ) as client:
        many = [{"name": f"{queue}-{n}", "vhost": "/", "arguments": {}} for n in range(3)]
        text = json.dumps({"queues": [{"name": queue}, *many], "note": "x" * (2 << 20)})
        form = {"file": ("d.json", text, "application/json")}
        assert client.post("/api/definitions", content=text).status_code == 204
        client.put(f"/api/vhosts/{vhost}")
        assert client.post(f"/api/definitions/{vhost}", files=form).status_code == 204
        assert len(client.get(f"/api/queues/{vhost}").json()) == 4

        message = {"routing_key": queue, "payload": "x" * (16 << 20), "payload_encoding": "string"}
        path = "/api/exchanges/%2F/amq.default/publish"
        assert client.post(path, json=message).json() == {"routed": True}
        message["properties"] = {"headers": {"x": "y" * (2 << 20)}}
        assert client.post(path, json=message).status_code == 400
        client.delete(f"/api/vhosts/{vhost}")
        for one in (queue, *(row["name"] for row in many)):
            client.delete(f"/api/queues/%2F/{one}")
    assert announced(managed, path, 23 << 20, "POST").startswith(b"HTTP/1.1 413")


def announced(broker: RunningBroker, path: str, length: int, method: str = "PUT") -> bytes:
    """The answer to a request that says how large its body will be."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    head += "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    with socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10) as peer:
        peer.sendall(head.encode())
        return peer.recv(4096)


def test_a_large_body_without_a_login_is_refused(raw: httpx.Client) -> None:
    answer = raw.post("/api/login", content=json.dumps({"username": "x" * 10_000}))
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "request_bytes",
    [b"\x16\x03\x01\x02\x00\x01", b"AMQP\x00\x00\x09\x01",
     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
     b"GET /%ff%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET " + b"/a" * 60_000],
)  # fmt: skip
def test_garbage_is_answered_or_hung_up_on(managed: RunningBroker, request_bytes: bytes) -> None:
    port = managed.http_port
    assert port is not None
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(request_bytes)
        peer.shutdown(socket.SHUT_WR)
        answer = peer.recv(4096)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_an_unfinished_http_request_is_closed_at_the_handshake_timeout() -> None:
    with (
        run_broker(sync=False, handshake_timeout=0.2) as broker,
        socket.create_connection(("127.0.0.1", broker.http_port or 0), timeout=10) as peer,
    ):
        peer.sendall(b"GET / HTT")
        assert peer.recv(1) == b""


def test_an_http_listener_that_cannot_start_is_logged_and_its_port_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("nothing fits")

    monkeypatch.setattr("headrace.server.http.uvicorn_protocol.assemble", broken)
    with (
        pytest.raises(RuntimeError, match="nothing fits"),
        run_broker(sync=False) as broker,
    ):
        wait_for(lambda: "cannot serve HTTP, the broker stops" in caplog.text)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{broker.http_url}/healthz")


def readable(peers: list[socket.socket]) -> list[socket.socket]:
    """Connections that the broker has closed: it sends nothing else to a silent one."""
    return select.select(peers, [], [], 0)[0]


def test_one_address_cannot_take_all_unauthenticated_connections() -> None:
    with run_broker(sync=False, max_unauthenticated_per_address=5) as broker:
        silent = [socket.create_connection(("127.0.0.1", broker.http_port or 0)) for _ in range(8)]
        oldest, newest = silent[:3], silent[3:]
        wait_for(lambda: set(readable(silent)) >= set(oldest), 30)
        assert readable(newest) == [], "only the oldest make room"
        for peer in silent:
            peer.close()
        wait_for(lambda: httpx.get(f"{broker.http_url}/healthz").status_code == 200)


def test_a_planted_secret_shows_nowhere(api: Api, raw: httpx.Client, name: Namer) -> None:
    secret = name("planted-secret")
    user = name("u")
    api.put(f"/api/users/{user}", {"password": secret, "tags": "management"})
    raw.get("/api/whoami", auth=(user, secret + "x"))
    everything = [
        api.call("GET", path).text
        for path in ("/api/users", f"/api/users/{user}", "/api/definitions", "/api/overview",
                     "/metrics", "/metrics/per-object")
    ]  # fmt: skip
    everything.append(api.call("PUT", f"/api/users/{user}", {"password": secret}).text)
    assert not [text for text in everything if secret in text]
    api.delete(f"/api/users/{part(user)}")
