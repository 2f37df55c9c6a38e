"""What a logged-in user may do, and which addresses are this machine's own."""

from __future__ import annotations

import pytest

from headrace.core.access.user import User, is_loopback
from headrace.errors import AccessRefused, NotAllowed
from headrace.model.permissions import Permissions, TopicPermissions


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_addresses_of_this_machine(peer: str) -> None:
    assert is_loopback(peer)


@pytest.mark.parametrize("peer", ["10.0.0.1", "::2", "fe80::1%eth0", "::ffff:10.0.0.1", "", "x"])
def test_addresses_of_others(peer: str) -> None:
    assert not is_loopback(peer)


def test_a_vhost_without_permissions_is_closed() -> None:
    user = User("guest", permissions={"/": Permissions(".*", ".*", ".*")})

    user.check_vhost("/")
    with pytest.raises(NotAllowed, match="access to vhost 'secret' refused for user 'guest'"):
        user.check_vhost("secret")
    with pytest.raises(AccessRefused):
        user.check("secret", "read", "queue", "q")


def test_permissions_are_asked_by_action_and_name() -> None:
    user = User("ann", permissions={"/": Permissions("^mine", "", ".*")})

    user.check("/", "configure", "queue", "mine.1")
    user.check("/", "read", "queue", "other")
    with pytest.raises(AccessRefused, match="queue 'other' in vhost '/' refused for user 'ann'"):
        user.check("/", "configure", "queue", "other")
    with pytest.raises(AccessRefused):
        user.check("/", "write", "exchange", "mine.1")


def test_routing_keys_are_free_unless_the_exchange_has_patterns() -> None:
    user = User("ann", topics={("/", "ex"): TopicPermissions("^a", "")})

    user.check_topic("/", "write", "other", "b")
    user.check_topic("v", "write", "ex", "b")
    user.check_topic("/", "write", "ex", "a.b")
    for action, key in (("write", "b"), ("read", "a")):
        text = f"access to topic '{key}' in exchange 'ex' in vhost '/' refused for user 'ann'"
        with pytest.raises(AccessRefused, match=text):
            user.check_topic("/", action, "ex", key)
