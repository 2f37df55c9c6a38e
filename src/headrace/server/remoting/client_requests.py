"""Requests relayed to clients, and replies to messages that were sent as requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.clock import Timer, Timers
from headrace.errors import PreconditionFailed
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import ConsumeDirectly, GetRunningInfo
from headrace.wire.remoting.headers.send import PushReply, SendResponse, take_send
from headrace.wire.remoting.message_ids import HostAddress, take_offset_id
from headrace.wire.remoting.names import reply_topic
from headrace.wire.remoting.properties import properties_text, take_properties
from headrace.wire.remoting.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import Handler, RemotingState

_SIGNING = (ACCESS_KEY, SECURITY_TOKEN, SIGNATURE)
LIMIT_MS = 10_000
MAX_WAITING = 1000


class RelayedRequest(NamedTuple):
    """The session that sent the request, and the timer that ends the wait."""

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

    def relay(self, asking: Session, client: Session, request: Command, body: bytes) -> None:
        """Send the request to the client; PreconditionFailed when too many are under way."""
        if len(self._waiting) >= MAX_WAITING:
            raise PreconditionFailed(
                f"{MAX_WAITING} relayed requests are pending, the limit; try again later"
            )
        number = client, client.send_request(request.code, _unsigned(request.ext), body)
        timer = self._timers.after(LIMIT_MS, lambda: self._time_out(number))
        self._waiting[number] = RelayedRequest(asking, request, timer)

    def take_response(self, client: Session, response: Command) -> None:
        """Pass a client's response on; one that was not waited for is dropped."""
        found = self._waiting.pop((client, response.opaque), None)
        if found is not None:
            found.timer.cancel()
            found.asking.respond(
                found.request, response.code, response.ext, response.body, response.remark
            )

    def drop(self, session: Session) -> None:
        """A connection is closed: it sends no response, and waits for none."""
        for number, waiting in list(self._waiting.items()):
            if number[0] is session:
                self._end(number, ResponseCode.SYSTEM_ERROR, "the client has disconnected")
            elif waiting.asking is session:
                waiting.timer.cancel()
                del self._waiting[number]

    def _time_out(self, number: tuple[Session, int]) -> None:
        text = f"the client has not responded within {LIMIT_MS // 1000} s"
        self._end(number, ResponseCode.CONSUME_MSG_TIMEOUT, text)

    def _end(self, number: tuple[Session, int], code: int, remark: str) -> None:
        waiting = self._waiting.pop(number)
        waiting.timer.cancel()
        waiting.asking.respond(waiting.request, code, remark=remark)


def _unsigned(ext: Mapping[str, str]) -> dict[str, str]:
    """The client must not get the signature of the console."""
    return {name: value for name, value in ext.items() if name not in _SIGNING}


def _running_info(state: RemotingState, session: Session, request: Command) -> None:
    header = GetRunningInfo.take(request.ext)
    _relay(state, session, request, header.consumer_group, header.client_id, b"")


def _consume_directly(state: RemotingState, session: Session, request: Command) -> None:
    """One message, consumed by that client now, whatever its group has done with it."""
    header = ConsumeDirectly.take(request.ext)
    _, physical = take_offset_id(header.msg_id or "")
    found = state.topics.find_message(physical)
    if found is None:
        remark = f"no message has the id {header.msg_id}"
        session.respond(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        return
    session.check_topic_right("read", found.topic.name)
    body = found.encode(session.store_host)
    _relay(state, session, request, header.consumer_group, header.client_id, body)


def _relay(
    state: RemotingState,
    session: Session,
    request: Command,
    group: str,
    client_id: str | None,
    body: bytes,
) -> None:
    known = state.members.groups.get(group)
    for connection, member in known.members.items() if known is not None else ():
        if member.client_id == client_id:
            state.relayed_requests.relay(session, connection, request, body)
            return
    remark = f"the consumer {client_id or '':.255} of group {group:.120} is not online"
    session.respond(request, ResponseCode.SYSTEM_ERROR, remark=remark)


def _reply(state: RemotingState, session: Session, request: Command) -> None:
    """A reply is not stored: the client that waits for it is connected, or has given up."""
    header = take_send(request.code, request.ext)
    if header.topic != reply_topic(state.settings.cluster):
        raise PreconditionFailed(f"replies go to the topic '{reply_topic(state.settings.cluster)}'")
    session.check_topic_right("write", header.topic)
    given = take_properties(header.properties)
    client_id = given.get(names.REPLY_TO_CLIENT, "")
    asking = state.members.find_client(client_id)
    if asking is None:
        session.respond(
            request,
            ResponseCode.SYSTEM_ERROR,
            remark=f"reply not delivered: client {client_id:.255} is not connected",
        )
        return
    now = state.wall_ms()
    pushed = PushReply(
        header.producer_group,
        header.topic,
        0,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        str(HostAddress(session.transport.peer_host, session.transport.peer_port)),
        str(asking.store_host),
        now,
        properties_text({**given, names.PUSH_REPLY_TIME: str(now)}),
        header.reconsume_times,
    )
    asking.send_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed.ext(), request.body)
    result = SendResponse(given.get(names.UNIQ_KEY, ""), 0, 0)
    session.respond(request, ext=result.ext())


HANDLERS: dict[int, Handler] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: _running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply,
}
