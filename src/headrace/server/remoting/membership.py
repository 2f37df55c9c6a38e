"""Heartbeats, members of groups, and locks on queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.errors import NotFound, PreconditionFailed
from headrace.model.selectors import compile_selector
from headrace.server.remoting.message_mapping import read_queues
from headrace.wire.remoting.codes import Language, RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    ConsumeModel,
    ConsumerGroup,
    GetConsumerList,
    Heartbeat,
    Subscription,
    UnregisterClient,
)
from headrace.wire.remoting.message_queue import (
    LockRequest,
    MessageQueue,
    locked_body,
    members_body,
)
from headrace.wire.remoting.names import check_group, is_retry_topic

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session

LOCK_EXPIRY_MS = 60_000  # after the last refresh


class QueueLocks:
    """By group and queue: who holds it, and since when nobody refreshed it."""

    def __init__(self) -> None:
        self._held: dict[str, dict[tuple[str, int], tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Those that the client holds now."""
        held = self._held.setdefault(group, {})
        taken = []
        for queue in queues:
            place = queue.topic, queue.queue_id
            owner, since = held.get(place, (client_id, now))
            if owner == client_id or now - since > LOCK_EXPIRY_MS:
                held[place] = client_id, now
                taken.append(queue)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Only what the client holds itself."""
        held = self._held.get(group, {})
        for queue in queues:
            place = queue.topic, queue.queue_id
            if held.get(place, ("", 0))[0] == client_id:
                del held[place]
        if not held:
            self._held.pop(group, None)

    def release(self, group: str, client_id: str) -> None:
        """The client is gone: nobody has to wait for the expiry."""
        held = self._held.get(group, {})
        for place in [place for place, (owner, _) in held.items() if owner == client_id]:
            del held[place]
        if not held:
            self._held.pop(group, None)

    def is_orderly(self, group: str, now: int) -> bool:
        """Whether anybody in the group holds a queue."""
        held = self._held.get(group, {})
        return any(now - since <= LOCK_EXPIRY_MS for _, since in held.values())

    def owner(self, group: str, topic: str, queue_id: int, now: int) -> str | None:
        owner, since = self._held.get(group, {}).get((topic, queue_id), ("", 0))
        return owner if owner and now - since <= LOCK_EXPIRY_MS else None


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


MAX_GROUPS = 1000  # of one client


def _heartbeat(session: Session, request: Command) -> None:
    beat = Heartbeat.take(request.body)
    hub = session.hub
    if len(beat.consumer_groups) + len(beat.producer_groups) > MAX_GROUPS:
        raise PreconditionFailed(f"a client is in at most {MAX_GROUPS} groups")
    member = Member(beat.client_id, session, request.language, request.version, hub.now_ms())
    for group in beat.consumer_groups:
        check_group(group.name)
        for one in group.subscriptions:
            session.check_topic_right("read", one.topic)
            compile_selector(one.kind, one.expression)
    for name in beat.producer_groups:
        hub.members.beat_producer(name, member)
    changed = [
        group.name
        for group in beat.consumer_groups
        if hub.members.beat(group, member, keep=beat.without_subscriptions)
    ]
    hub.watch_members()
    session.respond(request)
    for name in changed:
        hub.notify(name)


def _unregister(session: Session, request: Command) -> None:
    header = UnregisterClient.take(request.ext)
    hub = session.hub
    if header.producer_group:
        hub.members.leave_producers(header.producer_group, session)
    if header.consumer_group:
        if _is_member(session, header.consumer_group, header.client_id):
            hub.locks.release(header.consumer_group, header.client_id)
        if hub.members.leave(header.consumer_group, session):
            hub.notify(header.consumer_group)
    session.respond(request)


def _is_member(session: Session, group: str, client_id: str) -> bool:
    """Whether the connection is that member: nobody speaks for another."""
    found = session.hub.members.groups.get(group)
    member = found.members.get(session) if found is not None else None
    return member is not None and member.client_id == client_id


def _members(session: Session, request: Command) -> None:
    name = GetConsumerList.take(request.ext).consumer_group
    group = session.hub.members.groups.get(name)
    if group is None:
        session.respond(
            request, ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {name:.255}"
        )
        return
    session.respond(request, body=members_body(group.client_ids()))


def _lock(session: Session, request: Command) -> None:
    wanted = LockRequest.take(request.body)
    hub = session.hub
    group = hub.members.groups.get(wanted.consumer_group)
    if group is None or session not in group.members:
        raise NotFound(
            f"group '{wanted.consumer_group:.120}' does not know this client; "
            "a heartbeat comes before a lock"
        )
    for name in {queue.topic for queue in wanted.queues}:
        session.check_topic_right("read", name)
    there = []
    if _is_member(session, wanted.consumer_group, wanted.client_id):
        there = [queue for queue in wanted.queues if _exists(session, queue)]
    held = hub.locks.lock(wanted.consumer_group, wanted.client_id, there, hub.now_ms())
    session.respond(request, body=locked_body(held))


def _exists(session: Session, queue: MessageQueue) -> bool:
    """Nobody can hold more than there is."""
    topic = session.hub.find_topic(queue.topic)
    if topic is None:
        return is_retry_topic(queue.topic) and queue.queue_id == 0
    return 0 <= queue.queue_id < read_queues(topic)


def _unlock(session: Session, request: Command) -> None:
    given = LockRequest.take(request.body)
    if _is_member(session, given.consumer_group, given.client_id):
        session.hub.locks.unlock(given.consumer_group, given.client_id, given.queues)
    session.respond(request)


def _check(session: Session, request: Command) -> None:
    check = ClientCheck.take(request.body)
    compile_selector(check.subscription.kind, check.subscription.expression)
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _members,
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _unlock,
    RequestCode.CHECK_CLIENT_CONFIG: _check,
}
