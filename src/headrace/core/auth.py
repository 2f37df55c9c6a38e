"""Who may come in and what they may do. Sessions ask here and nowhere else.

Until users are managed there is one user, `guest`, who may do everything from this machine only.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.errors import AccessRefused, NotAllowed
from headrace.model.permissions import Permissions, refusal_text


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who has logged in."""

    name: str
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)  # by vhost

    def check(self, vhost: str, action: str, kind: str, resource: str) -> None:
        """Raise AccessRefused unless the user may ``action`` the queue or exchange."""
        allowed = self.permissions.get(vhost)
        if allowed is None or not allowed.allows(action, resource):
            raise AccessRefused(refusal_text(kind, resource, vhost, self.name))

    def check_vhost(self, vhost: str) -> None:
        """Raise NotAllowed unless the user may enter the vhost."""
        if vhost not in self.permissions:
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{self.name}'")


class Authority(Protocol):
    """Decides about logins."""

    def login(self, name: str, password: str, peer: str) -> User | None:
        """The user, or None when the name, the password or the address is not welcome."""


class GuestOnly:
    """The authority of a broker without user management: one user, from loopback only."""

    def __init__(self, name: str, password: str, vhosts: Mapping[str, object]) -> None:
        self._name = name
        self._password = password
        self._vhosts = vhosts

    def login(self, name: str, password: str, peer: str) -> User | None:
        right = hmac.compare_digest(password.encode("utf-8", "surrogateescape"),
                                    self._password.encode())  # fmt: skip
        if name != self._name or not right or not is_loopback(peer):
            return None
        everything = Permissions(".*", ".*", ".*")
        return User(name, frozenset({"administrator"}), dict.fromkeys(self._vhosts, everything))


def is_loopback(peer: str) -> bool:
    """Whether the peer's address is this machine's own."""
    try:
        address = ipaddress.ip_address(peer.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
