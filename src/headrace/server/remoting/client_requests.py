"""Questions of consoles that only a consumer can answer: handed on, and its answer handed back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.server.remoting.lookup import find_message
from headrace.server.remoting.message_mapping import sent_bytes
from headrace.server.remoting.places import queue_id_of
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import ConsumeDirectly, GetRunningInfo
from headrace.wire.remoting.message_ids import host_bytes, take_offset_id

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session


def _running_info(session: Session, request: Command) -> None:
    header = GetRunningInfo.take(request.ext)
    _hand_on(session, request, header.consumer_group, header.client_id, b"")


def _consume_directly(session: Session, request: Command) -> None:
    """One message, consumed by that client now, whatever its group has done with it."""
    header = ConsumeDirectly.take(request.ext)
    _, physical = take_offset_id(header.msg_id or "")
    found = find_message(session.hub, physical)
    if found is None:
        remark = f"no message has the id {header.msg_id}"
        session.respond(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        return
    topic = found.topic
    session.check_topic_right("read", topic.name)
    host = host_bytes(session.hub.store_host(session))
    queue_id = queue_id_of(topic, found.track)
    place = found.place[1], physical, found.time
    body = sent_bytes(found.record, topic.name.encode(), queue_id, *place, host)
    _hand_on(session, request, header.consumer_group, header.client_id, body)


def _hand_on(
    session: Session, request: Command, group: str, client_id: str | None, body: bytes
) -> None:
    hub = session.hub
    known = hub.members.groups.get(group)
    for connection, member in known.members.items() if known is not None else ():
        if member.client_id == client_id:
            hub.relays.hand_on(session, connection, request, body)
            return
    remark = f"the consumer {client_id or '':.255} of group {group:.120} is not online"
    session.respond(request, ResponseCode.SYSTEM_ERROR, remark=remark)


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
}
