"""The broker: vhosts, users, and the end of a vhost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from headrace.core.access.user import User
from headrace.core.broker import Broker
from headrace.core.clock import VirtualClock
from headrace.core.vhost import Vhost
from headrace.errors import NotAllowed, PreconditionFailed
from support.fake_loop import HandLoop


class Guest:
    """A connection that only remembers why it was closed."""

    def __init__(self, vhost: Vhost | None, user: str = "guest", channels: int = 0) -> None:
        self._vhost = vhost
        self.user = User(user)
        self.channel_count = channels
        self.reason: str | None = None
        self.told: list[User] = []

    @property
    def vhost(self) -> Vhost | None:
        return self._vhost

    def force_close(self, reason: str) -> None:
        self.reason = reason

    def rights_changed(self, user: User) -> None:
        self.told.append(user)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(
        cast(asyncio.AbstractEventLoop, HandLoop()),
        directory=tmp_path,
        memory_limit=1 << 40,
        disk_free_limit=0,
        clock=VirtualClock(),
    )


def test_a_vhost_is_made_once(broker: Broker) -> None:
    shop = broker.add_vhost("shop")

    assert broker.add_vhost("shop") is shop
    assert broker.get_vhost("shop") is shop
    assert list(broker.vhosts) == ["/", "shop"]


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_vhost_needs_a_name_of_a_sane_length(broker: Broker, name: str) -> None:
    with pytest.raises(PreconditionFailed):
        broker.add_vhost(name)


def test_an_unknown_vhost_is_refused(broker: Broker) -> None:
    with pytest.raises(NotAllowed, match="vhost nowhere not found"):
        broker.get_vhost("nowhere")


def test_deleting_a_vhost_ends_its_connections_and_no_others(broker: Broker) -> None:
    shop = broker.add_vhost("shop")
    queue = shop.declare_queue("q")
    inside, outside, nowhere = Guest(shop), Guest(broker.get_vhost("/")), Guest(None)
    broker.connections |= {inside, outside, nowhere}

    broker.delete_vhost("shop")

    assert inside.reason == "vhost 'shop' is deleted"
    assert (outside.reason, nowhere.reason) == (None, None)
    assert queue.deleted
    assert "shop" not in broker.vhosts


def test_the_same_name_in_two_vhosts_is_two_queues(broker: Broker) -> None:
    first = broker.get_vhost("/").declare_queue("q")
    second = broker.add_vhost("shop").declare_queue("q")

    assert first is not second


# -- users ----------------------------------------------------------------------------------------


def add_user(broker: Broker, name: str, **limits: int) -> User:
    broker.users.store_user(name, None, ())
    broker.users.set_permissions(name, "/", ".*", ".*", ".*")
    for limit, value in limits.items():
        broker.users.set_user_limit(name, limit.replace("_", "-"), value)
    return broker.users.user(name)


def test_changed_rights_reach_the_connections_of_that_user_only(broker: Broker) -> None:
    add_user(broker, "ann")
    add_user(broker, "bob")
    vhost = broker.get_vhost("/")
    ann, bob, early = Guest(vhost, "ann"), Guest(vhost, "bob"), Guest(None, "ann")
    broker.connections |= {ann, bob, early}
    broker.users.set_permissions("ann", "/", "", "", "^a")

    assert [user.permissions["/"].read for user in ann.told] == ["^a"]
    assert len(early.told) == 1
    assert (bob.told, bob.reason, ann.reason) == ([], None, None)


def test_who_may_not_be_in_the_vhost_any_more_is_sent_away(broker: Broker) -> None:
    add_user(broker, "ann")
    ann = Guest(broker.get_vhost("/"), "ann")
    broker.connections.add(ann)
    broker.users.clear_permissions("ann", "/")
    assert ann.reason == "access to vhost '/' refused for user 'ann'"

    broker.users.delete_user("ann")
    assert ann.reason == "user 'ann' is deleted"


@pytest.mark.parametrize(("limit", "is_admitted"), [(-1, True), (0, False), (2, False), (3, True)])
def test_a_limit_is_how_many_there_may_be(broker: Broker, limit: int, is_admitted: bool) -> None:
    user = add_user(broker, "ann", max_connections=limit, max_channels=limit)
    broker.connections |= {Guest(broker.get_vhost("/"), "ann", channels=1) for _ in range(2)}
    for attempt in (lambda: broker.admit(user, "/"), lambda: broker.check_channels(user)):
        if is_admitted:
            attempt()
        else:
            with pytest.raises(NotAllowed, match=rf"limit .*\({limit}\)"):
                attempt()


def test_a_login_from_before_a_change_has_the_rights_of_after(broker: Broker) -> None:
    before = add_user(broker, "ann")
    broker.users.set_permissions("ann", "/", "", "", "^new")

    user, vhost = broker.admit(before, "/")

    assert (user.permissions["/"].read, vhost.name) == ("^new", "/")
    with pytest.raises(NotAllowed, match="vhost nowhere not found"):
        broker.admit(before, "nowhere")
