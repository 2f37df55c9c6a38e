"""Publishing, consuming, getting, settling."""

from __future__ import annotations

from headrace.core.queues.consumer import Consumer
from headrace.core.reply_to import PSEUDO_QUEUE
from headrace.core.topics.engine_confirms import when_all_done
from headrace.errors import (
    BrokerError,
    EngineUnavailable,
    NotFound,
    PreconditionFailed,
    ResourceError,
)
from headrace.server.native.channel import Channel
from headrace.server.native.checks import checked_arguments
from headrace.server.native.publisher import PublishedCounts
from headrace.server.native.session import Handler, Session
from headrace.wire.native.deliveries import got_frame
from headrace.wire.native.payloads import Op, Request

MAX_PREFETCH = 65535


def _publish(session: Session, channel: Channel, request: Request) -> None:
    session.note_publish()
    replies = channel.reply_address
    reply_name = replies.name if replies is not None else None
    published = session.publisher.publish(request, reply_name)
    session.wait_for_commit()
    count = len(published.routed)
    channel.published += count
    session.open_vhost.counters.confirmed += count
    if not published.engine_confirms:
        _answer_publish(session, request, published)
        return

    def answer() -> None:
        if not session.closed and not channel.closing:
            _answer_publish(session, request, published)

    when_all_done(published.engine_confirms, answer)


def _answer_publish(session: Session, request: Request, published: PublishedCounts) -> None:
    routed, refused, position, engine_confirms = published
    shown: object = routed if "batch" in request.fields else routed[0]
    if any(confirms.failed for confirms in engine_confirms):
        error: BrokerError = EngineUnavailable("a topic took nothing; see the broker's log")
        session.respond_when_durable(request, position, error, routed=shown)
    elif refused:
        error = ResourceError("a full queue refused messages")
        session.respond_when_durable(request, position, error, routed=shown, refused=refused)
    else:
        session.respond_when_durable(request, position, routed=shown)


def _consume(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("queue")
    tag, no_ack = channel.free_tag(request.name("consumer_tag", "")), request.flag("auto_ack")
    if name == PSEUDO_QUEUE:
        channel.consume_replies(tag, no_ack=no_ack)
    else:
        arguments = checked_arguments(request)
        session.check("read", "queue", name)
        queue = session.open_vhost.get_queue_for(name, session)
        alone = request.flag("exclusive")
        channel.consume(queue, tag, arguments, no_ack=no_ack, alone=alone)
    session.respond(request, consumer_tag=tag)


def _cancel(session: Session, channel: Channel, request: Request) -> None:
    tag = request.text("consumer_tag")
    consumer, replies = channel.consumers.get(tag), channel.reply_address
    if consumer is not None:
        consumer.queue.unsubscribe(consumer)  # may push, and must before we answer
        channel.consumers.pop(tag, None)
        session.respond(request)
    elif replies is not None and replies.consumer_tag == tag:
        session.respond(request)
        channel.close_reply_address()
    else:
        raise NotFound(f"no consumer '{tag}' on this channel")


def _qos(session: Session, channel: Channel, request: Request) -> None:
    prefetch = request.whole("prefetch")
    if prefetch > MAX_PREFETCH:
        raise PreconditionFailed(f"prefetch must be 0 to {MAX_PREFETCH}")
    channel.default_prefetch = prefetch
    session.respond(request)


def _get(session: Session, channel: Channel, request: Request) -> None:
    name = request.text("queue")
    no_ack = request.flag("auto_ack")
    session.check("read", "queue", name)
    queue = session.open_vhost.get_queue_for(name, session)
    run = queue.take_one()
    if run is None:
        channel.got_nothing += 1
        session.respond(request, message=None)
        return
    channel.got_no_ack += no_ack
    entry = channel.get_entry(Consumer(queue, channel, "", no_ack=no_ack), run)
    session.send_bytes(got_frame(request.rid, channel.number, queue.backlog.count, entry))


def _tag(session: Session, channel: Channel, request: Request) -> int:
    """The delivery tag that is to be settled, given as such or by queue and message id."""
    if "message_id" not in request.fields:
        return request.whole("tag")
    name, message_id = request.text("queue"), request.text("message_id")
    queue = session.open_vhost.queues.get(name)
    if queue is None:
        raise NotFound(f"no queue '{name}' in vhost '{session.open_vhost.name}'")
    return channel.tag_of(queue, message_id)


def _ack(session: Session, channel: Channel, request: Request) -> None:
    multiple = request.flag("multiple")
    tag = _tag(session, channel, request)
    if multiple:
        channel.acknowledge_upto(tag)
    else:
        channel.acknowledge(tag, tag)
    session.respond(request)


def _nack(session: Session, channel: Channel, request: Request) -> None:
    multiple, requeue = request.flag("multiple"), request.flag("requeue", True)
    tag = _tag(session, channel, request)
    owner = channel.unacked.owner_of(tag) if request.flag("keep") else None
    if owner is None or owner.queue.settings.dead_letter_exchange is not None:
        channel.reject(tag, multiple=multiple, requeue=requeue)
    session.respond(request)


HANDLERS: dict[int, Handler] = {
    Op.PUBLISH: _publish,
    Op.CONSUME: _consume,
    Op.CANCEL: _cancel,
    Op.QOS: _qos,
    Op.GET: _get,
    Op.ACK: _ack,
    Op.NACK: _nack,
}
