"""Staged writes: messages put aside under (query, batch, attempt), then published in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.loop_turn import Steps, log_failure
from headrace.errors import BrokerError, ConnectionForced, InternalError, PreconditionFailed
from headrace.model.permissions import WRITE
from headrace.server import descriptors
from headrace.server.native import topic_fields
from headrace.server.native.channel import Channel
from headrace.wire.native.payloads import Op, Request, pack, unpack_trusted

if TYPE_CHECKING:
    from headrace.server.native.session import Handler, Session

MAX_BATCH = (1 << 62) - 1
PIECE = 512  # messages that are checked in one step of the publication


def _stage(session: Session, channel: Channel, request: Request) -> None:
    """Only the right to write is checked: what is wrong with a message is told at publication."""
    query, batch, attempt = request.name("query"), _batch(request), request.name("attempt")
    messages = request.maps("messages")
    if not messages:  # nothing that a right could be asked for
        raise PreconditionFailed("no messages to stage")
    topic = request.name("topic", "") or None
    if topic is not None:
        session.check(WRITE, "topic", f"topic.{topic}")
    else:
        for exchange in {str(one.get("exchange") or "") for one in messages}:
            session.check(WRITE, "exchange", exchange)
    pieces = [
        pack({"topic": topic, "batch": messages[start : start + PIECE]})
        for start in range(0, len(messages), PIECE)
    ]
    staging, owner = session.open_vhost.staging, session.user.name
    staging.stage(owner, _owned(session, query), batch, attempt, pieces, descriptors.refusal)
    session.respond(request)


def _batch(request: Request) -> int:
    """It becomes an offset in the journal, which must have room behind it."""
    batch = request.whole("batch")
    if batch > MAX_BATCH:
        raise PreconditionFailed(f"batch: at most {MAX_BATCH}")
    return batch


def _owned(session: Session, query: str) -> str:
    """Queries of different users do not meet, whatever they are called."""
    return f"{session.user.name}/{query}"


def _publish_staged(session: Session, channel: Channel, request: Request) -> None:
    query, batch = request.name("query"), _batch(request)
    attempts = request.texts("attempts")
    staging = session.open_vhost.staging
    query = _owned(session, query)
    already = staging.is_published(query, batch)
    if already or request.flag("discard"):
        staging.discard(query, batch)
        session.respond(request, already=already)
        return

    def steps() -> Steps:
        position = yield from staging.publish(
            session.open_vhost.routes, query, batch, attempts, lambda data: _prepare(session, data)
        )
        if not session.closed:
            session.respond_when_durable(request, position or 0, already=position is None)

    def done(error: Exception | None) -> None:
        if isinstance(error, BrokerError):
            session.refuse(request, error)
        elif error is not None:
            log_failure(error)
            session.refuse(request, InternalError("unexpected failure; see the broker's log"))

    session.turn.run(steps(), done)


def _prepare(session: Session, data: bytes) -> Callable[[], object]:
    """Check one piece of what was staged; what is returned publishes it."""
    if session.closed:
        raise ConnectionForced("the client is gone")
    fields = unpack_trusted(data)
    name = fields["topic"]
    if name is None:
        return session.publisher.prepare(fields["batch"])
    session.check(WRITE, "topic", f"topic.{name}")
    topic = session.open_vhost.topics.log.get(name)
    entries = topic_fields.entries_of(
        Request(Op.APPEND, {**fields, "rid": 0}), session.limits.max_message
    )

    return topic.prepare(entries)


HANDLERS: dict[int, Handler] = {Op.STAGE: _stage, Op.PUBLISH_STAGED: _publish_staged}
