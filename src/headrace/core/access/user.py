"""Who has logged in and what they may do. Sessions ask here and nowhere else."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import AccessRefused, NotAllowed
from headrace.model.permissions import (
    Permissions,
    TopicPermissions,
    refusal_text,
    topic_refusal_text,
)


@dataclass(frozen=True, slots=True)
class User:
    """A logged-in user, with the rights of that moment.

    When rights change, the connections of the user are given a new one.
    """

    name: str
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)  # by vhost
    topics: Mapping[tuple[str, str], TopicPermissions] = field(default_factory=dict)
    """By vhost and exchange; where there are none, every key is allowed."""
    limits: Mapping[str, int] = field(default_factory=dict)
    strict_topics: bool = False  # they hold also for what arrives without a publish
    topics_lost: bool = False  # some were damaged, of whomever: where there are none, refuse

    def allows(self, vhost: str, action: str, resource: str) -> bool:
        """Whether the user may configure, write or read the queue or exchange."""
        allowed = self.permissions.get(vhost)
        return allowed is not None and allowed.allows(action, resource)

    def check(self, vhost: str, action: str, kind: str, resource: str) -> None:
        """Raise AccessRefused unless the user may ``action`` the queue or exchange."""
        if not self.allows(vhost, action, resource):
            raise AccessRefused(refusal_text(kind, resource, vhost, self.name))

    def check_topic(self, vhost: str, action: str, exchange: str, key: str) -> None:
        """Raise AccessRefused unless the user may use the key on the topic exchange."""
        allowed = self.topics.get((vhost, exchange))
        if self.topics_lost if allowed is None else not allowed.allows(action, key):
            raise AccessRefused(topic_refusal_text(key, exchange, vhost, self.name))

    def check_links(
        self, vhost: str, kind: str, name: str, arguments: Mapping[str, object]
    ) -> None:
        """Check the alternate or dead-letter exchange that a declaration names.

        It moves messages: that needs the right to read here and to write there.
        """
        is_queue = kind == "queue"
        other = arguments.get("x-dead-letter-exchange" if is_queue else "alternate-exchange")
        if isinstance(other, str):
            self.check(vhost, "read", kind, name)
            self.check(vhost, "write", "exchange", other)
            self.check_forwarding(vhost, other, arguments.get("x-dead-letter-routing-key"))

    def check_forwarding(self, vhost: str, exchange: str, key: object = None) -> None:
        """With strict topic permissions, refuse to send messages on to an exchange where the user's
        keys are restricted: no publish shows their keys, unless one is fixed."""
        if self.strict_topics and (allowed := self.topics.get((vhost, exchange))) is not None:
            fixed = key if isinstance(key, str) else None
            if fixed is None or not allowed.allows("write", fixed):
                shown = "any key" if fixed is None else fixed
                raise AccessRefused(topic_refusal_text(shown, exchange, vhost, self.name))

    def check_vhost(self, vhost: str) -> None:
        """Raise NotAllowed unless the user may enter the vhost."""
        if vhost not in self.permissions:
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{self.name}'")


def is_loopback(peer: str) -> bool:
    """Whether the peer's address is this machine's own."""
    try:
        address = ipaddress.ip_address(peer.split("%", 1)[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
