"""Operations for Spark: pins, staged batches, status of pipelines.

A staged batch is stored under (query, batch, attempt) and published in one step, once.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.loop_turn import Steps, log_failure
from headrace.core.publication import Publication
from headrace.core.topics.async_engine import collect
from headrace.errors import BrokerError, ConnectionForced, InternalError, PreconditionFailed
from headrace.model.permissions import READ, WRITE
from headrace.server import process
from headrace.server.bulk_plan import check_seen, check_uuid, source_of
from headrace.server.native import engine_bulk, topic_fields
from headrace.server.native.channel import Channel
from headrace.server.native.session import Handler, Session
from headrace.server.native.topics import answer_with
from headrace.wire.native.payloads import Op, Request, pack, unpack_trusted

MAX_BATCH = (1 << 62) - 1
MAX_PIN_BYTES = 1 << 50
MAX_STATE = 64 << 10  # bytes of the status of a pipeline
PIECE = 512  # messages that are checked in one step of the publication


# -- pins ---------------------------------------------------------------------------------------


def _pin(session: Session, channel: Channel, request: Request) -> None:
    query, max_bytes = request.name("query"), request.whole("max_bytes")
    if max_bytes > MAX_PIN_BYTES:
        raise PreconditionFailed(f"max_bytes: at most {MAX_PIN_BYTES}")
    places, calls = [], []
    for one in request.maps("positions"):
        asked = Request(request.kind, {**one, "rid": 0})
        if (engine := engine_bulk.engine_of(session, asked)) is not None:
            calls.append(engine_bulk.pin(engine, query, asked, _offsets(asked.table("next"))))
            continue
        held = source_of(session, asked).held
        check_uuid(held, asked.text("uuid"))
        offsets, epochs = _offsets(asked.table("next")), _offsets(asked.table("epochs"))
        for partition in offsets.keys() & held.numbers.keys():
            check_seen(session, held, partition, offsets[partition], epochs.get(partition))
        places.append((held, offsets))
    for held, offsets in places:
        session.open_vhost.pins.pin(query, held, offsets, max_bytes)
    collect(calls, answer_with(session, channel, request, lambda _: {}))


def _offsets(table: Mapping[str, object]) -> dict[int, int]:
    try:
        found = {int(partition): int(str(offset)) for partition, offset in table.items()}
    except ValueError:
        raise PreconditionFailed("next: offsets by number of partition") from None
    if any(partition < 0 or not 0 <= at < 1 << 62 for partition, at in found.items()):
        raise PreconditionFailed("next: offsets and partitions count from 0")
    return found


def _unpin(session: Session, channel: Channel, request: Request) -> None:
    pins = session.open_vhost.pins
    query = request.name("query")
    for one in [pin for pin in pins if pin.query == query]:
        name = one.name if one.kind == "queue" else f"topic.{one.name}"
        session.check(READ, one.kind, name)
    removed = pins.remove(query)
    engine_bulk.unpin(
        session,
        query,
        answer_with(session, channel, request, lambda topics: {"removed": removed + len(topics)}),
    )


# -- staged batches -----------------------------------------------------------------------------


def _stage(session: Session, channel: Channel, request: Request) -> None:
    """Only the right to write is checked: an invalid message is refused at publication."""
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
    staging.stage(owner, _owned(session, query), batch, attempt, pieces, process.descriptor_refusal)
    session.respond(request)


def _batch(request: Request) -> int:
    """It becomes an offset in the log, which must have room behind it."""
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
    vhost = session.open_vhost
    staging = vhost.staging
    query = _owned(session, query)
    already = staging.is_published(query, batch)
    if already or request.flag("discard"):
        staging.discard(query, batch)
        # The first request may still be waiting for its sync.
        position = vhost.storage.position() if already else 0
        session.respond_when_durable(request, position, already=already)
        return

    def steps() -> Steps:
        position = yield from staging.publish(
            vhost.routes,
            vhost.new_publication,
            query,
            batch,
            attempts,
            lambda publication, data: _prepare(session, publication, data),
        )
        if not session.closed:
            already = position is None
            until = vhost.storage.position() if position is None else position
            session.respond_when_durable(request, until, already=already)

    def done(error: Exception | None) -> None:
        if isinstance(error, BrokerError):
            session.refuse(request, error)
        elif error is not None:
            log_failure(error)
            session.refuse(request, InternalError("unexpected failure; see the broker's log"))

    session.turn.run(steps(), done)


def _prepare(session: Session, publication: Publication, data: bytes) -> None:
    """Check one piece of what was staged, and add it to the publication."""
    if session.closed:
        raise ConnectionForced("the client is gone")
    fields = unpack_trusted(data)
    name = fields["topic"]
    if name is None:
        session.publisher.prepare(publication, fields["batch"])
        return
    session.check(WRITE, "topic", f"topic.{name}")
    topic = session.open_vhost.topics.log.get(name)
    entries = topic_fields.entries_of(
        Request(Op.APPEND, {**fields, "rid": 0}), session.config.max_message_size
    )
    publication.add_step(topic.prepare(entries))


# -- status of pipelines ------------------------------------------------------------------------


def _report(session: Session, channel: Channel, request: Request) -> None:
    name, state = request.name("name"), request.table("state")
    session.check(READ, "pipeline", name)
    if len(pack(state)) > MAX_STATE:
        raise PreconditionFailed(f"the state of a pipeline has at most {MAX_STATE} bytes")
    session.open_vhost.pipelines.report(name, state)
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    Op.PIN: _pin,
    Op.UNPIN: _unpin,
    Op.STAGE: _stage,
    Op.PUBLISH_STAGED: _publish_staged,
    Op.TELL_PIPELINE: _report,
}
