"""Heartbeats, members of groups, what they have pulled, and locks on queues."""

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
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

MAX_PULLING_GROUPS = 10_000  # more are not remembered
LOCK_EXPIRY_MS = 60_000  # after the last renewal


class PullOffsets:
    """By group, topic and queue: the offset behind the last message that was pulled."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], int]] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def set(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        offsets = self._groups.get(group)
        if offsets is None:
            if len(self._groups) >= MAX_PULLING_GROUPS:
                return
            offsets = self._groups[group] = {}
        offsets[topic, queue_id] = offset

    def get(self, group: str, topic: str, queue_id: int) -> int:
        return self._groups.get(group, {}).get((topic, queue_id), 0)

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)


class QueueLocks:
    """By group and queue: the client that holds it, and when it last renewed the lock."""

    def __init__(self) -> None:
        self._held: dict[str, dict[tuple[str, int], tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Lock or renew; the queues that the client holds now."""
        held = self._held.setdefault(group, {})
        taken = []
        for queue in queues:
            key = queue.topic, queue.queue_id
            owner, since = held.get(key, (client_id, now))
            if owner == client_id or now - since > LOCK_EXPIRY_MS:
                held[key] = client_id, now
                taken.append(queue)
        return taken

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Only what the client holds itself."""
        held = self._held.get(group, {})
        for queue in queues:
            key = queue.topic, queue.queue_id
            if held.get(key, ("", 0))[0] == client_id:
                del held[key]
        if not held:
            self._held.pop(group, None)

    def release(self, group: str, client_id: str) -> None:
        """The client is gone: others need not wait for the expiry."""
        held = self._held.get(group, {})
        for key in [key for key, (owner, _) in held.items() if owner == client_id]:
            del held[key]
        if not held:
            self._held.pop(group, None)

    def is_orderly(self, group: str, now: int) -> bool:
        """Whether a member of the group holds a queue."""
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

    def has_other(self, member: Member[C]) -> bool:
        """Whether the member's client is in the group over another connection, too."""
        return any(
            one.client_id == member.client_id and one.connection is not member.connection
            for one in self.members.values()
        )

    def subscribe(self, subscriptions: Iterable[Subscription]) -> bool:
        """The last heartbeat holds; a newer expression is not replaced by an older one."""
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
        """A heartbeat for a consumer group; True when its members must be notified of a change.

        ``keep``: it carries no subscriptions, the known ones hold.
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
        """Remove a member; True when others are left, who must be notified."""
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

    def remove(self, connection: C) -> list[str]:
        """The connection is closed; the consumer groups whose other members must be notified."""
        for name in [name for name, found in self.producers.items() if connection in found]:
            self.leave_producers(name, connection)
        held = [name for name, group in self.groups.items() if connection in group.members]
        return [name for name in held if self.leave(name, connection)]

    def expire(self, now: int) -> list[str]:
        """Remove silent members; the groups whose other members must be notified."""
        limit = now - EXPIRY_MS
        changed = []
        for name, group in list(self.groups.items()):
            silent = [one for one in group.members.values() if one.seen < limit]
            if any([self.leave(name, one.connection) for one in silent]):
                changed.append(name)
        for name, found in list(self.producers.items()):
            for one in [one for one in found.values() if one.seen < limit]:
                self.leave_producers(name, one.connection)
        return changed

    def client_ids(self, group: str) -> list[str]:
        found = self.groups.get(group)
        return [] if found is None else found.client_ids()

    def find_producer(self, group: str) -> C | None:
        """A connection of a producer group."""
        return next(iter(self.producers.get(group, ())), None)

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


def _heartbeat(state: RemotingState, session: Session, request: Command) -> None:
    beat = Heartbeat.take(request.body)
    if len(beat.consumer_groups) + len(beat.producer_groups) > MAX_GROUPS:
        raise PreconditionFailed(
            f"the heartbeat names more than {MAX_GROUPS} groups; use several clients"
        )
    member = Member(beat.client_id, session, request.language, request.version, state.now_ms())
    for group in beat.consumer_groups:
        check_group(group.name)
        for one in group.subscriptions:
            session.check_topic_right("read", one.topic)
            compile_selector(one.kind, one.expression)
    for name in beat.producer_groups:
        state.members.beat_producer(name, member)
    changed = [
        group.name
        for group in beat.consumer_groups
        if state.members.beat(group, member, keep=beat.without_subscriptions)
    ]
    state.expire_members()
    session.respond(request)
    for name in changed:
        state.notify_members(name)


def _unregister(state: RemotingState, session: Session, request: Command) -> None:
    header = UnregisterClient.take(request.ext)
    if header.producer_group:
        state.members.leave_producers(header.producer_group, session)
    if header.consumer_group:
        if _is_member(state, session, header.consumer_group, header.client_id):
            state.queue_locks.release(header.consumer_group, header.client_id)
        if state.members.leave(header.consumer_group, session):
            state.notify_members(header.consumer_group)
    session.respond(request)


def _is_member(state: RemotingState, session: Session, group: str, client_id: str) -> bool:
    """Whether the connection is that member: a client acts only for itself."""
    found = state.members.groups.get(group)
    member = found.members.get(session) if found is not None else None
    return member is not None and member.client_id == client_id


def _members(state: RemotingState, session: Session, request: Command) -> None:
    name = GetConsumerList.take(request.ext).consumer_group
    group = state.members.groups.get(name)
    if group is None:
        session.respond(
            request, ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {name:.255}"
        )
        return
    session.respond(request, body=members_body(group.client_ids()))


def _lock(state: RemotingState, session: Session, request: Command) -> None:
    wanted = LockRequest.take(request.body)
    group = state.members.groups.get(wanted.consumer_group)
    if group is None or session not in group.members:
        raise NotFound(
            f"this client is no member of group '{wanted.consumer_group:.120}'; "
            "send a heartbeat before you lock queues"
        )
    for name in {queue.topic for queue in wanted.queues}:
        session.check_topic_right("read", name)
    there = []
    if _is_member(state, session, wanted.consumer_group, wanted.client_id):
        there = [queue for queue in wanted.queues if _exists(state, queue)]
    held = state.queue_locks.lock(wanted.consumer_group, wanted.client_id, there, state.now_ms())
    session.respond(request, body=locked_body(held))


def _exists(state: RemotingState, queue: MessageQueue) -> bool:
    """Only queues that exist can be locked."""
    topic = state.topics.find(queue.topic)
    if topic is None:
        return is_retry_topic(queue.topic) and queue.queue_id == 0
    return 0 <= queue.queue_id < read_queues(topic)


def _unlock(state: RemotingState, session: Session, request: Command) -> None:
    given = LockRequest.take(request.body)
    if _is_member(state, session, given.consumer_group, given.client_id):
        state.queue_locks.unlock(given.consumer_group, given.client_id, given.queues)
    session.respond(request)


def _check(state: RemotingState, session: Session, request: Command) -> None:
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
