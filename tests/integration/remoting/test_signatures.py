"""Who RocketMQ clients are: signatures, secrets, and what happens without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.access.user import is_loopback
from headrace.core.broker import Broker
from headrace.core.definitions import export_definitions
from headrace.errors import NotFound, PreconditionFailed
from headrace.model.passwords import LIGHT, PasswordHash
from headrace.rocketmq import Message, Producer, ProducerConfig
from headrace.rocketmq.errors import RocketMQError
from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.server.remoting import authentication
from headrace.testing import RunningBroker, run_broker
from headrace.wire.remoting.codes import PullFlag, RequestCode, ResponseCode
from headrace.wire.remoting.command import Serialization
from headrace.wire.remoting.headers.offsets import GetMaxOffset
from headrace.wire.remoting.headers.pull import PullMessage
from headrace.wire.remoting.headers.send import SendMessage
from support.raw_remoting import Link
from support.remoting_broker import Ours
from support.rocketmq.protocol_checks import accepted, new_topic

pytestmark = pytest.mark.timeout(60)

KEY, SECRET = "clerk", "s3cret-s3cret"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker(sync=False) as broker:
        do(broker, add_clerk)
        yield broker


def do(broker: RunningBroker, work: object) -> None:
    async def run(server: Server) -> None:
        work(core(server))  # type: ignore[operator]

    broker._running().call(run)


def as_text(definitions: dict[str, object]) -> str:
    return json.dumps(definitions, default=list)


def add_clerk(broker: Broker) -> None:
    broker.users.store_user(KEY, PasswordHash.of("pw", LIGHT), ())
    broker.users.set_permissions(KEY, "/", r"topic\.T.*", r"topic\.T.*", r"topic\.(T.*|%RETRY%.*)")
    broker.users.set_secret(KEY, SECRET)


@pytest.mark.parametrize("serialization", list(Serialization), ids=lambda kind: kind.name)
def test_a_signed_request_is_one_of_its_user(
    broker: RunningBroker, serialization: Serialization
) -> None:
    address = Ours(broker).broker_address
    with Link(address, serialization, credentials=(KEY, SECRET)) as link:
        accepted(link.ask(SendMessage("PG", "T1", 0, 0, 1), "Größe".encode()))
        other = link.ask(SendMessage("PG", "other", 0, 0, 1), b"x")

    assert other.code == ResponseCode.NO_PERMISSION
    assert f"refused for user '{KEY}'" in (other.remark or "")


@pytest.mark.parametrize(
    ("key", "secret"),
    [(KEY, "wrong-wrong"), ("nobody", SECRET), ("guest", "guest-guest")],
)
def test_a_wrong_signature_is_refused(broker: RunningBroker, key: str, secret: str) -> None:
    with Link(Ours(broker).broker_address, credentials=(key, secret)) as link:
        answer = link.ask(GetMaxOffset("T1", 0))

    assert answer.code == ResponseCode.NO_PERMISSION
    assert "wrong access key or signature" in (answer.remark or "")


def test_who_guesses_has_to_wait(broker: RunningBroker) -> None:
    address = Ours(broker).broker_address
    with Link(address, credentials=(KEY, "wrong-wrong")) as link:
        for _ in range(6):
            link.ask(GetMaxOffset("T1", 0))
    with Link(address, credentials=(KEY, SECRET)) as link:
        answer = link.ask(GetMaxOffset("T1", 0))

    assert "locked" in (answer.remark or "")


def test_an_empty_key_is_no_signature(broker: RunningBroker) -> None:
    """The C++ client signs with one when it was given none."""
    with Link(Ours(broker).broker_address, credentials=("", "")) as link:
        accepted(link.ask(GetMaxOffset("T1", 0)))


def test_a_signed_connection_takes_nothing_unsigned(broker: RunningBroker) -> None:
    with Link(Ours(broker).broker_address, credentials=(KEY, SECRET)) as link:
        accepted(link.ask(GetMaxOffset("T1", 0)))
        link._credentials = None
        answer = link.ask(GetMaxOffset("T1", 0))

    assert answer.code == ResponseCode.NO_PERMISSION


def test_remote_clients_need_a_signature(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(Ours(broker))
    assert is_loopback("127.0.0.1")
    monkeypatch.setattr(authentication, "is_loopback", lambda peer: False)
    address = Ours(broker).broker_address
    with Link(address) as plain, Link(address, credentials=(KEY, SECRET)) as signed:
        refused = plain.ask(GetMaxOffset(topic, 0))
        accepted(signed.ask(GetMaxOffset("T1", 0)))

    assert refused.code == ResponseCode.NO_PERMISSION
    assert "headrace user set-secret" in (refused.remark or "")


def test_who_does_not_sign_is_guest_only_while_guest_has_the_default_password(
    broker: RunningBroker,
) -> None:
    kept = PasswordHash.of("guest")
    address = Ours(broker).broker_address
    with Link(address) as before:
        accepted(before.ask(GetMaxOffset("T1", 0)))
        do(broker, lambda broker: broker.users.store_user("guest", PasswordHash.of("new"), ()))
        with Link(address) as after, Link(address, credentials=(KEY, SECRET)) as signed:
            refused = [link.ask(GetMaxOffset("T1", 0)) for link in (before, after)]
            accepted(signed.ask(GetMaxOffset("T1", 0)))
        do(broker, lambda broker: broker.users.store_user("guest", kept, ()))
        accepted(before.ask(GetMaxOffset("T1", 0)))

    assert {answer.code for answer in refused} == {ResponseCode.NO_PERMISSION}
    assert all("has a password" in (answer.remark or "") for answer in refused)


def test_who_does_not_sign_is_the_user_that_the_settings_name() -> None:
    with run_broker(sync=False, rocketmq_user=KEY) as broker:
        do(broker, add_clerk)
        with Link(Ours(broker).broker_address) as link:
            accepted(link.ask(SendMessage("PG", "T1", 0, 0, 1), b"x"))
            other = link.ask(SendMessage("PG", "other", 0, 0, 1), b"x")

    assert f"refused for user '{KEY}'" in (other.remark or "")


def test_a_secret_taken_away_counts_at_once(broker: RunningBroker) -> None:
    with Link(Ours(broker).broker_address, credentials=(KEY, SECRET)) as link:
        accepted(link.ask(GetMaxOffset("T1", 0)))
        do(broker, lambda broker: broker.users.set_secret(KEY, None))
        answer = link.ask(GetMaxOffset("T1", 0))

    assert answer.code == ResponseCode.NO_PERMISSION


def test_secrets_survive_a_restart_and_are_in_no_export(tmp_path: Path) -> None:
    exported: list[str] = []
    with run_broker(data_dir=tmp_path / "data") as broker:
        do(broker, add_clerk)
        broker.restart()
        with Link(Ours(broker).broker_address, credentials=(KEY, SECRET)) as link:
            accepted(link.ask(GetMaxOffset("T1", 0)))
        do(
            broker,
            lambda broker: exported.append(
                json.dumps(export_definitions(broker, "3.10"), default=list)
            ),
        )
        do(broker, lambda broker: exported.append(repr(broker.users.list_users())))

    assert (tmp_path / "data" / "meta.db").stat().st_mode & 0o077 == 0
    assert KEY in exported[0]
    assert not any(SECRET in text for text in exported)


def test_the_secret_of_a_deleted_user_is_gone(broker: RunningBroker) -> None:
    def again(broker: Broker) -> None:
        broker.users.delete_user(KEY)
        broker.users.store_user(KEY, None, ())
        assert KEY not in broker.users.secrets

    do(broker, again)


@pytest.mark.parametrize("secret", ["short", "x" * 256, "tab\tand\nline", "größer-als-8"])
def test_a_secret_that_cannot_be_used_is_refused(broker: RunningBroker, secret: str) -> None:
    with pytest.raises(PreconditionFailed, match="8 to 255 characters"):
        do(broker, lambda broker: broker.users.set_secret(KEY, secret))
    with pytest.raises(NotFound):
        do(broker, lambda broker: broker.users.set_secret("nobody", SECRET))


def test_our_own_producer_signs(broker: RunningBroker) -> None:
    assert broker.namesrv_addr is not None
    config = ProducerConfig(
        producer_group="PG", namesrv_addr=broker.namesrv_addr, access_key=KEY, secret_key=SECRET
    )
    with Producer(config) as producer:
        producer.send(Message("T1", b"x"))
        with pytest.raises(RocketMQError):
            producer.send(Message("secret", b"x"))


def test_a_held_pull_is_refused_when_the_right_is_gone(broker: RunningBroker) -> None:
    with Link(Ours(broker).broker_address, credentials=(KEY, SECRET)) as link:
        accepted(link.ask(SendMessage("PG", "T1", 0, 0, 1), b"first"))
        held = int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)
        pull = PullMessage(
            "CG", "T1", 0, 1, 32, held, suspend_timeout_millis=30_000, subscription="*"
        )
        link._send(pull.CODE, pull.ext(), b"", 0)
        accepted(link.ask(GetMaxOffset("T1", 0)))
        do(broker, lambda broker: broker.users.set_permissions(KEY, "/", "", r"topic\.T.*", ""))
        link._send(RequestCode.SEND_MESSAGE, SendMessage("PG", "T1", 0, 0, 1).ext(), b"news", 0)
        received = []
        while len(received) < 2:
            received += link._receive()

    assert sorted(one.code for one in received) == [0, ResponseCode.NO_PERMISSION]
