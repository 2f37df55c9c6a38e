"""Who may come in, and what they may do."""

from __future__ import annotations

import pytest

from headrace.core.auth import GuestOnly, User, is_loopback
from headrace.errors import AccessRefused, NotAllowed
from headrace.model.permissions import Permissions


@pytest.fixture
def authority() -> GuestOnly:
    return GuestOnly("guest", "sécret", {"/": object(), "other": object()})


def test_the_right_password_from_this_machine_is_welcome(authority: GuestOnly) -> None:
    user = authority.login("guest", "sécret", "127.0.0.1")

    assert user is not None
    assert user.name == "guest"
    user.check_vhost("other")
    user.check("/", "configure", "queue", "anything")


@pytest.mark.parametrize(
    ("name", "password", "peer"),
    [
        ("guest", "wrong", "127.0.0.1"),
        ("guest", "", "127.0.0.1"),
        ("guest", "\udcff", "127.0.0.1"),
        ("Guest", "sécret", "127.0.0.1"),
        ("", "sécret", "127.0.0.1"),
        ("guest", "sécret", "192.0.2.7"),
        ("guest", "sécret", "2001:db8::1"),
        ("guest", "sécret", "no address"),
        ("guest", "sécret", ""),
    ],
)
def test_anybody_else_is_not(authority: GuestOnly, name: str, password: str, peer: str) -> None:
    assert authority.login(name, password, peer) is None


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.7", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
    ],
)
def test_loopback_addresses(peer: str, expected: bool) -> None:
    assert is_loopback(peer) is expected


def test_a_vhost_without_permissions_is_closed(authority: GuestOnly) -> None:
    user = authority.login("guest", "sécret", "::1")
    assert user is not None

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


def test_vhosts_made_later_are_open_to_the_next_login() -> None:
    vhosts: dict[str, object] = {"/": object()}
    authority = GuestOnly("guest", "guest", vhosts)
    vhosts["new"] = object()

    user = authority.login("guest", "guest", "127.0.0.1")

    assert user is not None
    user.check_vhost("new")
