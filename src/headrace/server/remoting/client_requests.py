"""Requests relayed to clients, and replies to messages that were sent as requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.clock import Timer, Timers
from headrace.errors import PreconditionFailed
from headrace.server.remoting.message_mapping import queue_id_of, sent_bytes
from headrace.server.remoting.query import find_message
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import ConsumeDirectly, GetRunningInfo
from headrace.wire.remoting.headers.send import PushReply, SendMessage, SendResponse, take_send
from headrace.wire.remoting.message_ids import HostAddress, host_bytes, take_offset_id
from headrace.wire.remoting.names import reply_topic
from headrace.wire.remoting.properties import properties_text, take_properties
from headrace.wire.remoting.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session

_SIGNING = (ACCESS_KEY, SECURITY_TOKEN, SIGNATURE)
LIMIT_MS = 10_000
MAX_WAITING = 1000


class RelayedRequest(NamedTuple):
    """Who has asked, and until when there is hope."""

    asking: Session
    request: Command
    timer: Timer


class RelayedRequests:
    """Requests that clients have not answered yet."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[tuple[Session, int], RelayedRequest] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def hand_on(self, asking: Session, client: Session, request: Command, body: bytes) -> None:
        """PreconditionFailed when too many are under way."""
        if len(self._waiting) >= MAX_WAITING:
            raise PreconditionFailed(f"{MAX_WAITING} requests wait for clients; ask again later")
        place = client, client.next_opaque()
        timer = self._timers.after(LIMIT_MS, lambda: self._give_up(place))
        self._waiting[place] = RelayedRequest(asking, request, timer)
        client.send_command(Command(request.code, _unsigned(request.ext), body, opaque=place[1]))

    def answered(self, client: Session, answer: Command) -> None:
        """A client has answered something; what nobody has asked is nobody's concern."""
        found = self._waiting.pop((client, answer.opaque), None)
        if found is not None:
            found.timer.cancel()
            found.asking.respond(found.request, answer.code, answer.ext, answer.body, answer.remark)

    def drop(self, session: Session) -> None:
        """A connection is gone: it answers no more, and waits for nothing."""
        for place, waiting in list(self._waiting.items()):
            if place[0] is session:
                self._end(place, ResponseCode.SYSTEM_ERROR, "the client is gone")
            elif waiting.asking is session:
                waiting.timer.cancel()
                del self._waiting[place]

    def _give_up(self, place: tuple[Session, int]) -> None:
        text = f"the client has not answered within {LIMIT_MS // 1000} s"
        self._end(place, ResponseCode.CONSUME_MSG_TIMEOUT, text)

    def _end(self, place: tuple[Session, int], code: int, remark: str) -> None:
        waiting = self._waiting.pop(place)
        waiting.timer.cancel()
        waiting.asking.respond(waiting.request, code, remark=remark)


def _unsigned(ext: Mapping[str, str]) -> dict[str, str]:
    """Signatures are between the console and us."""
    return {name: value for name, value in ext.items() if name not in _SIGNING}


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


def _reply(session: Session, request: Command) -> None:
    """A reply is not kept: whoever waits for it is there, or has given up."""
    header = take_send(request.code, request.ext)
    hub = session.hub
    if header.topic != reply_topic(hub.settings.cluster):
        raise PreconditionFailed(f"replies go to the topic '{reply_topic(hub.settings.cluster)}'")
    session.check_topic_right("write", header.topic)
    given = take_properties(header.properties)
    client_id = given.get(names.REPLY_TO_CLIENT, "")
    asking = hub.members.find_client(client_id)
    if asking is None:
        session.respond(
            request,
            ResponseCode.SYSTEM_ERROR,
            remark=f"nobody waits for the reply: client {client_id:.255} is not connected",
        )
        return
    _push(session, asking, header, given, request.body)
    result = SendResponse(given.get(names.UNIQ_KEY, ""), 0, 0)
    session.respond(request, ext=result.ext())


def _push(
    session: Session,
    asking: Session,
    header: SendMessage,
    given: dict[str, str],
    body: bytes,
) -> None:
    transport, hub = session.transport, session.hub
    now = hub.wall_ms()
    pushed = PushReply(
        header.producer_group,
        header.topic,
        0,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        str(HostAddress(transport.peer_host, transport.peer_port)),
        str(hub.store_host(asking)),
        now,
        properties_text({**given, names.PUSH_REPLY_TIME: str(now)}),
        header.reconsume_times,
    )
    asking.send_command(
        Command(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            pushed.ext(),
            body,
            opaque=asking.next_opaque(),
        )
    )


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply,
}
