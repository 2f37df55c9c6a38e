"""Who is in which group: what heartbeats say, until they stop. No I/O; times are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.wire.remoting.codes import Language
from headrace.wire.remoting.headers.groups import ConsumeModel, ConsumerGroup, Subscription

EXPIRY_MS = 120_000  # after the last heartbeat
C = TypeVar("C")  # a connection


@dataclass(slots=True)
class Member(Generic[C]):
    """One client in one group."""

    client_id: str
    connection: C
    language: Language
    version: int
    seen: int


@dataclass(slots=True)
class GroupMembers(Generic[C]):
    """The members of a consumer group, and what they subscribe to together."""

    name: str
    config: ConsumerGroup
    members: dict[C, Member[C]] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def is_clustering(self) -> bool:
        return self.config.model is ConsumeModel.CLUSTERING

    def client_ids(self) -> list[str]:
        return sorted({member.client_id for member in self.members.values()})

    def subscribe(self, subscriptions: Iterable[Subscription]) -> bool:
        """The last heartbeat is right; a younger expression is not replaced by an older one."""
        wanted = {one.topic: one for one in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        self.subscriptions = {
            topic: known
            if (known := self.subscriptions.get(topic)) is not None and known.version > one.version
            else one
            for topic, one in wanted.items()
        }
        return changed


class GroupMembership(Generic[C]):
    """All groups. A connection is in as many as its client likes."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupMembers[C]] = {}
        self.producers: dict[str, dict[C, Member[C]]] = {}

    def beat(self, config: ConsumerGroup, member: Member[C], *, keep: bool = False) -> bool:
        """A heartbeat for a consumer group; True when its members must hear of a change.

        ``keep``: it does not say the subscriptions, those of before hold.
        """
        group = self.groups.get(config.name)
        if group is None:
            group = self.groups[config.name] = GroupMembers(config.name, config)
        known = group.members.get(member.connection)
        group.members[member.connection] = member
        group.config = config
        changed = not keep and group.subscribe(config.subscriptions)
        return changed or known is None or known.client_id != member.client_id

    def beat_producer(self, group: str, member: Member[C]) -> None:
        self.producers.setdefault(group, {})[member.connection] = member

    def leave(self, group: str, connection: C) -> bool:
        """The member is gone; True when others are left who must hear of it."""
        found = self.groups.get(group)
        if found is None or found.members.pop(connection, None) is None:
            return False
        if not found.members:
            del self.groups[group]
            return False
        return True

    def leave_producers(self, group: str, connection: C) -> None:
        found = self.producers.get(group)
        if found is not None:
            found.pop(connection, None)
            if not found:
                del self.producers[group]

    def lose(self, connection: C) -> list[str]:
        """The connection is gone; the consumer groups in which others must hear of it."""
        for name in [name for name, found in self.producers.items() if connection in found]:
            self.leave_producers(name, connection)
        held = [name for name, group in self.groups.items() if connection in group.members]
        return [name for name in held if self.leave(name, connection)]

    def expire(self, now: int) -> list[str]:
        """Forget who has been silent too long; the groups whose members must hear of it."""
        limit = now - EXPIRY_MS
        told = []
        for name, group in list(self.groups.items()):
            silent = [one for one in group.members.values() if one.seen < limit]
            if any([self.leave(name, one.connection) for one in silent]):
                told.append(name)
        for name, found in list(self.producers.items()):
            for one in [one for one in found.values() if one.seen < limit]:
                self.leave_producers(name, one.connection)
        return told

    def find_client(self, client_id: str) -> C | None:
        """A connection of the client, if it is a producer."""
        for members in self.producers.values():
            for member in members.values():
                if member.client_id == client_id:
                    return member.connection
        return None

    def find_subscription(self, group: str, topic: str) -> Subscription | None:
        found = self.groups.get(group)
        return None if found is None else found.subscriptions.get(topic)
