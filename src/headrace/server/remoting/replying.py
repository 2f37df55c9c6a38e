"""Replies to requests that were sent as messages: handed to the client that waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import PreconditionFailed
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import RequestCode, ResponseCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.send import PushReply, SendMessage, SendResponse, take_send
from headrace.wire.remoting.message_ids import HostAddress
from headrace.wire.remoting.names import reply_topic
from headrace.wire.remoting.properties import properties_text, take_properties

if TYPE_CHECKING:
    from headrace.server.remoting.handlers import Handler
    from headrace.server.remoting.session import Session


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
    link, hub = session.link, session.hub
    now = hub.wall_ms()
    pushed = PushReply(
        header.producer_group,
        header.topic,
        0,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        str(HostAddress(link.peer, link.peer_port)),
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
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply,
}
