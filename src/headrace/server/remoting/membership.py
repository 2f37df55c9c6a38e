"""Heartbeats, members, locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import NotFound, PreconditionFailed
from headrace.model.selectors import compile_selector
from headrace.server.remoting.members import Member
from headrace.server.remoting.places import read_queues
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import (
    ClientCheck,
    GetConsumerList,
    Heartbeat,
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
