"""Every route with every permission missing: refused as specified, or done.

Tags are tested in integration/http/test_access.py; here the user has them all, and only the
permissions in the vhost decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from headrace.core.broker import Broker
from headrace.server.http.route_table import TABLE
from headrace.server.http.router import ENTER, ApiRoute
from support.access_matrix import (
    PASSWORD,
    USER,
    Matrix,
    Need,
    Rule,
    Site,
    clear,
    configure,
    every_subset,
    nothing,
    read,
    write,
)

_numbers = count()
DEFAULT = "amq.default"
ALIVENESS = "aliveness-test"
GROUP = "g"


class Case:
    """One attempt: names that nothing else has, and a client of the user."""

    def __init__(self, client: httpx.Client, guest: httpx.Client) -> None:
        number = next(_numbers)
        self.client, self.guest = client, guest
        self.name_all(f"-{number}")
        self.make("queues", self.queue)
        self.make("exchanges", self.exchange, type="fanout")
        self.make("exchanges", self.other, type="fanout")

    def name_all(self, ending: str) -> None:
        self.new, self.queue = f"new{ending}", f"q{ending}"
        self.exchange, self.other = f"x{ending}", f"y{ending}"
        self.topic = f"t{ending}".replace("-", "_")

    def make(self, kind: str, name: str, **body: object) -> None:
        assert self.guest.put(f"/api/{kind}/%2F/{name}", json=body).is_success

    def fill(self) -> None:
        body = {"routing_key": self.queue, "payload": "m", "payload_encoding": "string"}
        assert self.guest.post(f"/api/exchanges/%2F/{DEFAULT}/publish", json=body).is_success

    def bind(self) -> None:
        for target in (f"q/{self.queue}", f"e/{self.other}"):
            path = f"/api/bindings/%2F/e/{self.exchange}/{target}"
            assert self.guest.post(path, json={"routing_key": "k"}).is_success

    def make_topic(self) -> None:
        self.make("topics", self.topic)

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:  # noqa: ANN401
        return self.client.request(method, f"/api{path}", json=body)

    def move(self, destination: dict[str, object]) -> httpx.Response:
        path = f"/queues/%2F/{self.queue}/move"
        return self.ask("POST", path, {"destination": destination, "count": 1})


def reads_queue(case: Case) -> list[Need]:
    return [read("queue", case.queue)]


def on_topic(action: str) -> Callable[[Case], list[Need]]:
    return lambda case: [Need(action, "topic", f"topic.{case.topic}")]


QUEUE = "/api/queues/{vhost}/{name}"
EXCHANGE = "/api/exchanges/{vhost}/{name}"
PAIR = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
TOPIC = "/api/topics/{vhost}/{name}"
TAKING = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
MESSAGE = {"routing_key": "", "payload": "m", "payload_encoding": "string"}

RULES: dict[str, Rule[str, Case]] = {
    "declare a queue": Rule(
        f"PUT {QUEUE}",
        lambda c: c.ask("PUT", f"/queues/%2F/{c.new}", {}),
        lambda c: [configure("queue", c.new)],
    ),
    "declare a queue again": Rule(
        f"PUT {QUEUE}",
        lambda c: c.ask("PUT", f"/queues/%2F/{c.queue}", {}),
        lambda c: [configure("queue", c.queue)],
    ),
    "declare a queue with a dead-letter exchange": Rule(
        f"PUT {QUEUE}",
        lambda c: c.ask(
            "PUT", f"/queues/%2F/{c.new}", {"arguments": {"x-dead-letter-exchange": c.other}}
        ),
        lambda c: [configure("queue", c.new), read("queue", c.new), write("exchange", c.other)],
    ),
    "delete a queue": Rule(
        f"DELETE {QUEUE}",
        lambda c: c.ask("DELETE", f"/queues/%2F/{c.queue}"),
        lambda c: [configure("queue", c.queue)],
    ),
    "purge": Rule(
        f"DELETE {QUEUE}/contents",
        lambda c: c.ask("DELETE", f"/queues/%2F/{c.queue}/contents"),
        reads_queue,
    ),
    "get": Rule(
        f"POST {QUEUE}/get",
        lambda c: c.ask("POST", f"/queues/%2F/{c.queue}/get", TAKING),
        reads_queue,
        Case.fill,
    ),
    "browse": Rule(
        f"GET {QUEUE}/browse",
        lambda c: c.ask("GET", f"/queues/%2F/{c.queue}/browse"),
        reads_queue,
        Case.fill,
    ),
    "events of a message": Rule(
        f"GET {QUEUE}/events",
        lambda c: c.ask("GET", f"/queues/%2F/{c.queue}/events?offset=0"),
        reads_queue,
    ),
    "move to a queue": Rule(
        f"POST {QUEUE}/move",
        lambda c: c.move({"queue": c.new}),
        lambda c: [read("queue", c.queue), write("exchange", DEFAULT)],
        lambda c: (c.fill(), c.make("queues", c.new)),  # type: ignore[arg-type, return-value]
    ),
    "move to an exchange": Rule(
        f"POST {QUEUE}/move",
        lambda c: c.move({"exchange": c.exchange}),
        lambda c: [read("queue", c.queue), write("exchange", c.exchange)],
        Case.fill,
    ),
    "move back to the origin": Rule(
        f"POST {QUEUE}/move",
        lambda c: c.move({"origin": True}),
        lambda c: [read("queue", c.queue), write("exchange", DEFAULT)],
        Case.fill,
    ),
    "actions of clusters": Rule(
        f"POST {QUEUE}/actions",
        lambda c: c.ask("POST", f"/queues/%2F/{c.queue}/actions", {"action": "sync"}),
        nothing,
    ),
    "declare an exchange": Rule(
        f"PUT {EXCHANGE}",
        lambda c: c.ask("PUT", f"/exchanges/%2F/{c.new}", {"type": "fanout"}),
        lambda c: [configure("exchange", c.new)],
    ),
    "declare an exchange with an alternate": Rule(
        f"PUT {EXCHANGE}",
        lambda c: c.ask(
            "PUT",
            f"/exchanges/%2F/{c.new}",
            {"type": "fanout", "arguments": {"alternate-exchange": c.other}},
        ),
        lambda c: [
            configure("exchange", c.new),
            read("exchange", c.new),
            write("exchange", c.other),
        ],
    ),
    "declare an exchange that reaches queues by name": Rule(
        f"PUT {EXCHANGE}",
        lambda c: c.ask(
            "PUT",
            f"/exchanges/%2F/{c.new}",
            {"type": "direct", "arguments": {"x-direct-to-queue": True}},
        ),
        lambda c: [configure("exchange", c.new), write("exchange", DEFAULT)],
    ),
    "delete an exchange": Rule(
        f"DELETE {EXCHANGE}",
        lambda c: c.ask("DELETE", f"/exchanges/%2F/{c.exchange}"),
        lambda c: [configure("exchange", c.exchange)],
    ),
    "publish": Rule(
        f"POST {EXCHANGE}/publish",
        lambda c: c.ask("POST", f"/exchanges/%2F/{c.exchange}/publish", MESSAGE),
        lambda c: [write("exchange", c.exchange)],
    ),
    "publish to the default exchange": Rule(
        f"POST {EXCHANGE}/publish",
        lambda c: c.ask("POST", f"/exchanges/%2F/{DEFAULT}/publish", MESSAGE),
        lambda c: [write("exchange", DEFAULT)],
    ),
    "bind a queue": Rule(
        f"POST {PAIR}",
        lambda c: c.ask("POST", f"/bindings/%2F/e/{c.exchange}/q/{c.queue}", {}),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
    ),
    "bind an exchange": Rule(
        f"POST {PAIR}",
        lambda c: c.ask("POST", f"/bindings/%2F/e/{c.exchange}/e/{c.other}", {}),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
    ),
    "unbind a queue": Rule(
        f"DELETE {PAIR}/{{properties}}",
        lambda c: c.ask("DELETE", f"/bindings/%2F/e/{c.exchange}/q/{c.queue}/k"),
        lambda c: [write("queue", c.queue), read("exchange", c.exchange)],
        Case.bind,
    ),
    "unbind an exchange": Rule(
        f"DELETE {PAIR}/{{properties}}",
        lambda c: c.ask("DELETE", f"/bindings/%2F/e/{c.exchange}/e/{c.other}/k"),
        lambda c: [write("exchange", c.other), read("exchange", c.exchange)],
        Case.bind,
    ),
    "make a topic": Rule(
        f"PUT {TOPIC}",
        lambda c: c.ask("PUT", f"/topics/%2F/{c.topic}", {}),
        on_topic("configure"),
    ),
    "delete a topic": Rule(
        f"DELETE {TOPIC}",
        lambda c: c.ask("DELETE", f"/topics/%2F/{c.topic}"),
        on_topic("configure"),
        Case.make_topic,
    ),
    "look at a topic": Rule(
        f"GET {TOPIC}",
        lambda c: c.ask("GET", f"/topics/%2F/{c.topic}"),
        on_topic("read"),
        Case.make_topic,
    ),
    "groups of a topic": Rule(
        f"GET {TOPIC}/groups",
        lambda c: c.ask("GET", f"/topics/%2F/{c.topic}/groups"),
        on_topic("read"),
        Case.make_topic,
    ),
    "rows of a topic": Rule(
        "GET /api/rows/{vhost}/{name}",
        lambda c: c.ask("GET", f"/rows/%2F/{c.topic}"),
        on_topic("read"),
        Case.make_topic,
    ),
    "set a group back": Rule(
        f"POST {TOPIC}/groups/{{group}}/seek",
        lambda c: c.ask("POST", f"/topics/%2F/{c.topic}/groups/g/seek", {"to": "earliest"}),
        on_topic("read"),
        Case.make_topic,
    ),
    "forget a group": Rule(
        f"DELETE {TOPIC}/groups/{{group}}",
        lambda c: c.ask("DELETE", f"/topics/%2F/{c.topic}/groups/g"),
        on_topic("read"),
        Case.make_topic,
    ),
    "keep a report": Rule(
        "PUT /api/reports/{vhost}/{name}",
        lambda c: c.ask("PUT", f"/reports/%2F/{c.new}", {"from": "a", "to": "b"}),
        lambda c: [configure("report", c.new)],
    ),
    "forget a report": Rule(
        "DELETE /api/reports/{vhost}/{name}",
        lambda c: c.ask("DELETE", f"/reports/%2F/{c.new}"),
        lambda c: [configure("report", c.new)],
    ),
    "aliveness": Rule(
        "GET /api/aliveness-test/{vhost}",
        lambda c: c.ask("GET", "/aliveness-test/%2F"),
        lambda c: [
            configure("queue", ALIVENESS),
            read("queue", ALIVENESS),
            write("exchange", DEFAULT),
        ],
    ),
}
# Nothing in the vhost is named by these: its vhost access and the user's tag are all they ask for.
BY_TAG_ALONE = {
    "POST /api/vhosts/{vhost}/start/{node}",
    "PUT /api/policies/{vhost}/{name}",
    "DELETE /api/policies/{vhost}/{name}",
    "PUT /api/parameters/{component}/{vhost}/{name}",
    "DELETE /api/parameters/{component}/{vhost}/{name}",
}
OPEN = [
    route
    for route in TABLE.routes
    if route.rule.tag is not None
    and f"{route.method} {route.path}" not in {rule.operation for rule in RULES.values()}
]


def label(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def clients(site: Site) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    def promote(broker: Broker) -> None:
        broker.users.store_user(USER, None, ("administrator",))

    site.do(promote)
    url = str(site.running.http_url)
    with (
        httpx.Client(timeout=60, base_url=url, auth=(USER, PASSWORD)) as user,
        httpx.Client(timeout=60, base_url=url, auth=("guest", "guest")) as guest,
    ):
        yield user, guest


@pytest.fixture
def case(site: Site, clients: tuple[httpx.Client, httpx.Client]) -> Iterator[Case]:
    site.allow_everything()
    yield Case(*clients)
    site.do(clear)


def refusal(rule: Rule[str, Case], case: Case) -> str | None:
    """The reason of the 401, or None when the request was carried out."""
    answer = rule.act(case)
    if answer.status_code == 401:
        assert answer.json()["error"] == "not_authorised"
        return str(answer.json()["reason"])
    assert answer.is_success or answer.status_code == 404, answer.text
    return None


MATRIX = Matrix(RULES, refusal)
UNUSED = object.__new__(Case)
UNUSED.name_all("")


@every_subset
@pytest.mark.parametrize("name", RULES)
def test_a_route_is_done_with_the_actions_it_needs_and_refused_without(
    site: Site, case: Case, name: str, granted: tuple[str, ...]
) -> None:
    MATRIX.check_actions(site, case, name, granted)


@pytest.mark.parametrize(("name", "index"), list(MATRIX.needs(UNUSED)))
def test_a_route_is_refused_for_the_one_name_that_is_not_allowed(
    site: Site, case: Case, name: str, index: int
) -> None:
    MATRIX.check_missing_name(site, case, name, index)


@pytest.mark.parametrize("name", RULES)
def test_a_route_needs_no_more_than_its_rule_says(site: Site, case: Case, name: str) -> None:
    MATRIX.check_exact_needs(site, case, name)


@pytest.mark.parametrize("route", OPEN, ids=label)
def test_the_other_routes_name_nothing_that_permissions_protect(
    site: Site, clients: tuple[httpx.Client, httpx.Client], route: ApiRoute
) -> None:
    site.allow("", "", "")
    parts = [
        "%2F" if one == "{vhost}" else "zz" if one.startswith("{") else one
        for one in route.path.split("/")
    ]
    answer = clients[0].request(route.method, "/".join(parts), json={})
    site.do(lambda broker: broker.delete_vhost("zz") if "zz" in broker.vhosts else None)

    assert answer.status_code not in (401, 403, 500), answer.text


def test_every_route_into_a_vhost_has_a_rule() -> None:
    inside = {label(route) for route in TABLE.routes if route.rule.vhost == ENTER}
    ruled = {rule.operation for rule in RULES.values()}

    assert ruled - {label(route) for route in TABLE.routes} == set()
    assert inside == ruled | BY_TAG_ALONE


# -- routing keys ---------------------------------------------------------------------------------


@pytest.fixture
def narrow(site: Site, case: Case) -> Iterator[Case]:
    """A user who may use the keys of a topic exchange that begin with "own."."""
    case.make("exchanges", "narrow", type="topic")
    site.do(lambda b: b.users.set_topic_permissions(USER, "/", "narrow", "^own", "^own"))
    yield case
    site.do(lambda b: b.users.clear_topic_permissions(USER, "/", "narrow"))


def binding(case: Case, key: str, target: str) -> httpx.Response:
    return case.ask("POST", f"/bindings/%2F/e/narrow/{target}", {"routing_key": key})


def publishing(case: Case, key: str) -> httpx.Response:
    return case.ask("POST", "/exchanges/%2F/narrow/publish", MESSAGE | {"routing_key": key})


def moving(case: Case, key: str) -> httpx.Response:
    case.make("queues", "kept-for-narrow")
    case.guest.post(
        "/api/bindings/%2F/e/narrow/q/kept-for-narrow", json={"routing_key": "#"}
    ).raise_for_status()
    case.fill()
    return case.move({"exchange": "narrow", "routing_key": key})


@pytest.mark.parametrize(
    "act",
    [
        publishing,
        moving,
        lambda case, key: binding(case, key, f"q/{case.queue}"),
        lambda case, key: binding(case, key, f"e/{case.other}"),
    ],
    ids=["publish", "move", "bind a queue", "bind an exchange"],
)
def test_routing_key_permissions_hold_over_http(
    narrow: Case, act: Callable[[Case, str], httpx.Response]
) -> None:
    refused = act(narrow, "foreign.key")
    assert refused.status_code == 401
    assert "access to topic 'foreign.key' in exchange 'narrow'" in refused.json()["reason"]
    assert act(narrow, "own.key").is_success


def test_a_binding_with_a_foreign_key_is_not_removed_over_http(narrow: Case) -> None:
    path = f"/api/bindings/%2F/e/narrow/q/{narrow.queue}"
    narrow.guest.post(path, json={"routing_key": "foreign"}).raise_for_status()

    assert narrow.client.delete(f"{path}/foreign").status_code == 401
    assert narrow.guest.get(f"{path}/foreign").status_code == 200
