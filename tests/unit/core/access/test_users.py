"""Users, permissions and limits: what is kept, who hears of changes, what is written down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from headrace.core.access import audit
from headrace.core.access.user import User
from headrace.core.access.users import Users
from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.errors import LoginRefused, NotFound, PreconditionFailed
from headrace.model.passwords import LIGHT, SCRYPT, SHA256, PasswordHash
from support.fake_loop import HandLoop

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of "test12"
SECRET = "planted-secret-4711"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(
        cast(asyncio.AbstractEventLoop, HandLoop()),
        directory=tmp_path,
        memory_limit=1 << 40,
        disk_free_limit=0,
        clock=VirtualClock(),
    )
    yield broker
    broker.users.close()


@pytest.fixture
def users(broker: Broker) -> Users:
    return broker.users


def add(users: Users, name: str = "ann", password: str = "pw", *tags: str) -> None:
    users.store_user(name, PasswordHash.of(password, LIGHT), tags)


# -- users --------------------------------------------------------------------------------------


def test_users_are_made_changed_and_listed(users: Users) -> None:
    assert asyncio.run(users.put_user("bob", password="pw", tags=["monitoring"]))
    assert not asyncio.run(users.put_user("bob", tags=["administrator", "management"]))
    asyncio.run(users.put_user("ann", password_hash=HASH))

    ann, bob = users.list_users()

    assert (ann.name, ann.tags, ann.password_hash, ann.hashing_algorithm) == (
        "ann",
        (),
        HASH,
        SHA256,
    )
    assert (bob.name, bob.tags, bob.hashing_algorithm) == (
        "bob",
        ("administrator", "management"),
        SCRYPT,
    )
    assert bob.password.matches("pw")


def test_a_user_without_password_is_opened_by_none(users: Users) -> None:
    asyncio.run(users.put_user("ann"))

    for password in ("", "ann", users.get_user("ann").password_hash):
        with pytest.raises(LoginRefused):
            asyncio.run(users.authenticate("ann", password, "127.0.0.1"))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "", "password": "x"},
        {"name": "x" * 256, "password": "x"},
        {"name": "ann", "password": ""},
        {"name": "ann", "password": "x", "password_hash": HASH},
        {"name": "ann", "password_hash": "!"},
        {"name": "ann", "password_hash": HASH, "hashing": "rabbit_password_hashing_md5"},
        {"name": "ann", "tags": ["a,b"]},
        {"name": "ann", "tags": [""]},
    ],
    ids=str,
)
def test_a_user_that_cannot_be_is_refused(users: Users, fields: dict[str, object]) -> None:
    with pytest.raises(PreconditionFailed):
        asyncio.run(users.put_user(**fields))  # type: ignore[arg-type]

    assert users.list_users() == []


def test_what_is_not_there_cannot_be_changed(users: Users) -> None:
    add(users)
    for attempt in (
        lambda: users.get_user("nobody"),
        lambda: users.delete_user("nobody"),
        lambda: users.set_permissions("nobody", "/", "", "", ""),
        lambda: users.set_permissions("ann", "nowhere", "", "", ""),
        lambda: users.clear_permissions("ann", "/"),
        lambda: users.set_topic_permissions("ann", "nowhere", "ex", "", ""),
        lambda: users.set_user_limit("nobody", "max-channels", 1),
        lambda: users.set_vhost_limit("nowhere", "max-queues", 1),
    ):
        with pytest.raises(NotFound):
            attempt()


def test_deleting_a_user_deletes_what_it_was_allowed(users: Users) -> None:
    for name in ("ann", "bob"):
        add(users, name)
        users.set_permissions(name, "/", "a", "b", "c")
        users.set_topic_permissions(name, "/", "ex", "a", "b")
        users.set_user_limit(name, "max-channels", 1)
    users.delete_user("ann")

    assert [row.user for row in users.permissions()] == ["bob"]
    assert [row.user for row in users.topic_permissions()] == ["bob"]
    assert list(users.user_limits()) == ["bob"]


# -- permissions --------------------------------------------------------------------------------


def test_permissions_are_listed_by_user_and_vhost(broker: Broker, users: Users) -> None:
    broker.add_vhost("v")
    for name in ("ann", "bob"):
        add(users, name)
        for vhost in ("/", "v"):
            assert users.set_permissions(name, vhost, "a", "b", "c")
    assert not users.set_permissions("ann", "v", "x", "y", "z")

    assert len(users.permissions()) == 4
    assert [row.vhost for row in users.permissions(user="ann")] == ["/", "v"]
    assert [row.user for row in users.permissions(vhost="v")] == ["ann", "bob"]
    (row,) = users.permissions("ann", "v")
    assert (row.configure, row.write, row.read) == ("x", "y", "z")


def test_a_pattern_that_is_refused_changes_nothing(users: Users) -> None:
    add(users)
    for pattern in ("(a{1000}){1000}", "(", "x" * 2000):
        with pytest.raises(PreconditionFailed):
            users.set_permissions("ann", "/", pattern, "", "")
        with pytest.raises(PreconditionFailed):
            users.set_topic_permissions("ann", "/", "ex", pattern, "")

    assert users.permissions() == users.topic_permissions() == []


def test_a_deleted_vhost_takes_its_permissions_along(broker: Broker, users: Users) -> None:
    broker.add_vhost("v")
    add(users)
    users.set_permissions("ann", "v", ".*", ".*", ".*")
    users.set_topic_permissions("ann", "v", "ex", "a", "b")
    users.set_vhost_limit("v", "max-queues", 0)
    broker.delete_vhost("v")
    broker.add_vhost("v")

    assert users.permissions() == users.topic_permissions() == []
    assert users.vhost_limits() == {}
    assert "v" not in users.user("ann").permissions


def test_topic_patterns_may_name_the_user_and_the_vhost(broker: Broker, users: Users) -> None:
    broker.add_vhost("v.1")
    add(users, "a.b")
    users.set_topic_permissions("a.b", "v.1", "ex", r"^{username}\.", "^{vhost}$")
    allowed = users.user("a.b").topics["v.1", "ex"]

    assert allowed.allows("write", "a.b.c")
    assert not allowed.allows("write", "axb.c")  # a name is no pattern
    assert allowed.allows("read", "v.1")
    assert not allowed.allows("read", "vx1")


def test_topic_permissions_are_cleared_one_by_one_or_all(users: Users) -> None:
    add(users)
    for exchange in ("e1", "e2", "e3"):
        users.set_topic_permissions("ann", "/", exchange, "a", "b")
    users.clear_topic_permissions("ann", "/", "e2")
    assert [row.exchange for row in users.topic_permissions()] == ["e1", "e3"]

    users.clear_topic_permissions("ann", "/")
    assert users.topic_permissions() == []


# -- limits -------------------------------------------------------------------------------------


def test_limits_are_set_listed_and_cleared(users: Users) -> None:
    add(users)
    users.set_user_limit("ann", "max-connections", 5)
    users.set_vhost_limit("/", "max-queues", 10)
    assert users.user_limits() == {"ann": {"max-connections": 5}}
    assert users.vhost_limits("/") == {"/": {"max-queues": 10}}
    assert users.user("ann").limits == {"max-connections": 5}

    users.clear_user_limit("ann", "max-connections")
    users.clear_vhost_limit("/", "max-queues")
    assert users.user_limits() == users.vhost_limits() == {}


@pytest.mark.parametrize("value", ["5", 1.5, True, None, 2**40])
def test_a_limit_is_a_whole_number(users: Users, value: object) -> None:
    add(users)
    with pytest.raises(PreconditionFailed):
        users.set_user_limit("ann", "max-connections", value)
    with pytest.raises(PreconditionFailed):
        users.set_vhost_limit("/", "max-queues", value)

    assert users.user_limits() == users.vhost_limits() == {}


def test_a_limit_has_a_known_name(users: Users) -> None:
    add(users)
    with pytest.raises(PreconditionFailed, match="expected one of max-connections, max-channels"):
        users.set_user_limit("ann", "max-queues", 1)
    with pytest.raises(PreconditionFailed, match="expected one of max-connections, max-queues"):
        users.set_vhost_limit("/", "max-channels", 1)


# -- who hears of it ----------------------------------------------------------------------------


def test_every_change_reaches_the_connections_of_the_user(broker: Broker) -> None:
    heard: list[tuple[str, User | None]] = []

    def on_change(name: str) -> None:
        heard.append((name, users.find(name)))

    users = Users(broker.storage, broker.vhosts, on_change)
    add(users)
    heard.clear()
    users.set_permissions("ann", "/", "a", "b", "c")
    users.set_topic_permissions("ann", "/", "ex", "a", "b")
    users.set_user_limit("ann", "max-channels", 2)
    users.store_user("ann", None, ["monitoring"])
    users.clear_permissions("ann", "/")
    users.delete_user("ann")

    assert [name for name, _ in heard] == ["ann"] * 6
    rights = [user for _, user in heard if user is not None]
    assert rights[0].allows("/", "configure", "a")
    assert ("/", "ex") in rights[1].topics
    assert rights[2].limits == {"max-channels": 2}
    assert rights[3].tags == {"monitoring"}
    assert rights[4].permissions == {}
    assert heard[5][1] is None


def test_every_change_is_in_the_audit_log_without_secrets(
    broker: Broker, users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), audit.acting("root", "10.0.0.7"):
        asyncio.run(users.put_user("ann\nforged: line", password=SECRET))
        asyncio.run(users.put_user("bob", password_hash=HASH, tags=["administrator"]))
        broker.add_vhost("v")
        users.set_permissions("bob", "v", "a", "b", "c")
        users.set_user_limit("bob", "max-channels", 2)
        broker.delete_vhost("v")
        users.delete_user("bob")
    lines = [record.getMessage() for record in caplog.records if record.name == "headrace.audit"]

    assert [line.split(": ", 1)[1].split(" ")[:2] for line in lines] == [
        ["user", "created"],
        ["user", "created"],
        ["vhost", "created"],
        ["permissions", "set"],
        ["user", "limit"],
        ["vhost", "deleted"],
        ["user", "deleted"],
    ]
    assert all(line.startswith("user 'root' from 10.0.0.7: ") for line in lines)
    assert all("\n" not in line for line in lines)
    stored = [account.password_hash for account in users.list_users()]
    assert not any(secret in caplog.text for secret in (SECRET, HASH, *stored))


def test_an_account_shows_neither_password_nor_hash(users: Users) -> None:
    add(users, "ann", SECRET)
    account = users.get_user("ann")

    assert SECRET not in repr(account) + str(users.user("ann"))
    assert account.password_hash not in repr(account)


# -- the first user -----------------------------------------------------------------------------


def test_the_first_user_may_do_everything_everywhere(broker: Broker, users: Users) -> None:
    broker.add_vhost("v")
    users.ensure_default_user("root", "pw")
    user = users.user("root")

    assert user.tags == {"administrator"}
    assert all(user.allows(vhost, "configure", "anything") for vhost in ("/", "v"))


def test_no_first_user_is_added_beside_existing_users(users: Users) -> None:
    add(users)
    users.ensure_default_user("guest", "guest")

    assert [account.name for account in users.list_users()] == ["ann"]
