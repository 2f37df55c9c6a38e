"""A data directory that version 1 wrote opens with everything in it, after a crash and a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ProbableAuthenticationError

from fixtures import contents
from fixtures.opening import ClockAt, Written, unpacked
from headrace.cli.main import main
from headrace.testing import RunningBroker, run_broker

NAMES = ["crashed", "stopped"]
Message = tuple[bytes, pika.BasicProperties, bool]


@pytest.fixture(scope="module", params=NAMES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    return unpacked(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def broker(written: Written) -> Iterator[RunningBroker]:
    with run_broker(data_dir=written.data, clock=written.clock()) as broker:
        yield broker


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    yield connection.channel()
    connection.close()


@pytest.fixture
def api(broker: RunningBroker) -> Iterator[httpx.Client]:
    url = f"{broker.http_url}/api/"
    with httpx.Client(base_url=url, auth=("guest", "guest"), timeout=30) as client:
        yield client


def taken(channel: BlockingChannel, queue: str) -> list[Message]:
    """All messages of a queue, acknowledged."""
    found = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((body, properties, method.redelivered))


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    return [body for body, _, _ in taken(channel, queue)]


def numbered(name: str, *numbers: int) -> list[bytes]:
    return [f"{name}-{number}".encode() for number in numbers]


# -- queues -------------------------------------------------------------------------------------


def test_fsck_finds_nothing_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Written
) -> None:
    fresh = unpacked(written.name, tmp_path)
    assert main(["fsck", str(fresh.data)]) == 0, capsys.readouterr()


def test_unacknowledged_messages_come_back_in_order_and_marked(
    channel: BlockingChannel, written: Written
) -> None:
    left = [one for one in range(contents.PLAIN) if one not in contents.ACKED]
    found = taken(channel, "plain")

    assert [body for body, _, _ in found] == [*numbered("plain", *left), b"routed"]
    # After a crash anything may have been delivered; after a stop it is known what was.
    delivered = [written.is_crashed or one < 12 for one in [*left, 99]]
    assert [redelivered for _, _, redelivered in found] == delivered
    first = found[0][1]
    assert (first.message_id, first.app_id, first.content_type) == ("p5", "maker", "text/plain")
    assert (first.delivery_mode, first.headers) == (2, {"number": 5, "text": "Grün"})


def test_messages_of_several_segments_come_in_order(channel: BlockingChannel) -> None:
    expected = [f"{number}:".encode() + b"x" * 1000 for number in range(contents.WIDE)]
    assert bodies(channel, "wide") == expected


def test_priorities_are_kept(channel: BlockingChannel) -> None:
    order = sorted(range(len(contents.PRIORITIES)), key=lambda one: -contents.PRIORITIES[one])
    assert bodies(channel, "ranked") == numbered("ranked", *order)


def test_returns_are_counted(channel: BlockingChannel) -> None:
    found = taken(channel, "strong")

    assert [body for body, _, _ in found] == numbered("strong", 0, 1, 2)
    assert found[0][1].headers["x-delivery-count"] == 2


def test_dead_letters_are_where_they_went(channel: BlockingChannel) -> None:
    dead = taken(channel, "dead")

    assert bodies(channel, "work") == numbered("work", 2)
    assert [body for body, _, _ in dead] == numbered("work", 0, 1)
    (death,) = dead[0][1].headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("work", "rejected", 1)


@pytest.mark.parametrize(
    ("queue", "body"), [("fanned", b"fanned"), ("matched", b"matched"), ("unrouted", b"unrouted")]
)
def test_routed_messages_wait(channel: BlockingChannel, queue: str, body: bytes) -> None:
    assert bodies(channel, queue)[:1] == [body]  # other tests may have published more


@pytest.mark.parametrize("queue", ["tx.one", "tx.two"])
def test_a_committed_transaction_is_whole_and_another_is_not_there(
    channel: BlockingChannel, queue: str
) -> None:
    assert bodies(channel, queue) == numbered("tx", 0, 1, 2)


def test_the_policy_counts(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "policy.short", b"short-5")
    assert bodies(channel, "policy.short") == numbered("short", 3, 4, 5)


def test_bindings_route(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    own = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(own, "lost")
    channel.basic_publish("orders", "new to all", b"new")
    assert bodies(channel, own) == [b"new"]
    channel.queue_bind(own, "fan")
    channel.basic_publish("orders", "fan.again", b"again")
    assert bodies(channel, own) == [b"again"]


@pytest.mark.parametrize("name", NAMES)
def test_delayed_messages_come_when_they_are_due(tmp_path: Path, name: str) -> None:
    written = unpacked(name, tmp_path)
    first, *together = written.noted["due"]
    for dues, before, after in (([first], 0, 1), (together, 1, 3)):
        clock = ClockAt(dues[0][0] - 1000)  # the broker was down until shortly before
        (written.data / "clock").unlink(missing_ok=True)  # version 1 noted no time to compare with
        with run_broker(data_dir=written.data, clock=clock) as broker:
            assert broker.queue("due").messages == before
            broker.advance(0.9)
            assert broker.queue("due").messages == before
            broker.advance(0.2 + (dues[-1][1] - dues[0][0]) / 1000)
            assert broker.queue("due").messages == after
    with run_broker(data_dir=written.data, clock=clock) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
        assert bodies(connection.channel(), "due") == numbered("due", 0, 1, 2)
        connection.close()


# -- declarations -------------------------------------------------------------------------------


def rows(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    return list(api.get(path).raise_for_status().json())


def test_queues_and_exchanges_are_declared_as_they_were(api: httpx.Client) -> None:
    queues = {one["name"]: one for one in rows(api, "queues/%2F")}
    found = {name: queues[name]["arguments"] for name in contents.QUEUES}
    exchanges = {one["name"]: one for one in rows(api, "exchanges/%2F")}

    plain = {name: {k: v for k, v in one.items() if k != "x-queue-type"}
             for name, one in found.items() if name != "strong"}  # fmt: skip
    assert plain == {name: one for name, one in contents.QUEUES.items() if name != "strong"}
    assert found["strong"] == contents.QUEUES["strong"]
    assert all(queues[name]["durable"] for name in contents.QUEUES)
    for name, wanted in contents.EXCHANGES.items():
        one = exchanges[name]
        assert (one["type"], one["durable"]) == (wanted["type"], True)
        assert one["arguments"] == wanted.get("arguments", {})
        assert one["internal"] == wanted.get("internal", False)


def test_bindings_are_there(api: httpx.Client) -> None:
    named = {"q": "queue", "e": "exchange"}
    found = [
        (one["source"], one["destination_type"], one["destination"], one["routing_key"],
         one["arguments"])
        for one in rows(api, "bindings/%2F")
    ]  # fmt: skip
    for source, kind, to, key, arguments in contents.BINDINGS:
        assert (source, named[kind], to, key, arguments) in found


def test_users_rights_and_limits_are_there(api: httpx.Client) -> None:
    assert {one["name"]: one["tags"] for one in rows(api, "users")} == {
        "guest": ["administrator"],
        **{name: [tag] for name, tag in contents.TAGS.items()},
    }
    rights = {(one["vhost"], one["user"]): one for one in rows(api, "permissions")}
    for key, wanted in contents.PERMISSIONS.items():
        assert {name: rights[key][name] for name in wanted} == wanted
    (topical,) = rows(api, "topic-permissions")
    assert {name: topical[name] for name in contents.TOPIC_PERMISSION} == contents.TOPIC_PERMISSION
    (limits,) = rows(api, "user-limits")
    assert (limits["user"], limits["value"]) == ("anna", {"max-connections": 7})
    (limits,) = rows(api, "vhost-limits")
    assert (limits["vhost"], limits["value"]) == ("shop", {"max-queues": 9})


@pytest.mark.parametrize("name", sorted(contents.PASSWORDS))
def test_users_log_in_with_their_passwords(broker: RunningBroker, name: str) -> None:
    def connect(password: str) -> pika.BlockingConnection:
        login = pika.PlainCredentials(name, password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=login)
        )

    connection = connect(contents.PASSWORDS[name])
    channel = connection.channel()
    channel.queue_declare(f"{name}.own", exclusive=True)
    if name == "anna":
        with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.queue_declare("not hers")
    connection.close()
    with pytest.raises(ProbableAuthenticationError):
        connect("wrong")


def test_vhosts_policies_and_parameters_are_there(api: httpx.Client) -> None:
    vhosts = {one["name"]: one for one in rows(api, "vhosts")}
    assert sorted(vhosts) == ["/", "shop"]
    assert (vhosts["shop"]["description"], vhosts["shop"]["tags"]) == ("the shop", ["one", "two"])
    (policy,) = rows(api, "policies")
    assert {name: policy[name] for name in contents.POLICY} == contents.POLICY
    assert api.get("parameters/custom/%2F/colour").json()["value"] == contents.PARAMETER
    assert api.get("global-parameters/motto").json()["value"] == "slow and steady"
