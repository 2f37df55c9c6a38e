"""basic.*: consuming, getting, settling. (Publishes and plain acks take the fast path.)"""

from __future__ import annotations

from typing import Any

from headrace.core.queues.consumer import Consumer
from headrace.core.reply_to import PSEUDO_QUEUE
from headrace.errors import Unsupported
from headrace.server.amqp.channel import Channel
from headrace.server.amqp.session import Session
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import method_frame


def _qos(session: Session, channel: Channel, method: m.BasicQos) -> None:
    if method.prefetch_size:
        raise Unsupported(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
        channel.mark_queues()
    else:
        channel.default_prefetch = method.prefetch_count
    session.send(channel.number, m.BasicQosOk())


def _consume(session: Session, channel: Channel, method: m.BasicConsume) -> None:
    tag = channel.free_tag(method.consumer_tag)
    if method.queue == PSEUDO_QUEUE:
        channel.consume_replies(tag, no_ack=method.no_ack)
    else:
        vhost, name = session.open_vhost, channel.queue_name(method.queue)
        session.check("read", "queue", name)
        queue = vhost.get_queue_for(name, session)
        if channel.prefetch and queue.settings.queue_type == "quorum":
            raise Unsupported(f"queue '{name}' in vhost '{vhost.name}' does not support global qos")
        no_ack, alone = method.no_ack, method.exclusive
        channel.consume(queue, tag, method.arguments, no_ack=no_ack, alone=alone)
    if not method.nowait:
        session.send(channel.number, m.BasicConsumeOk(consumer_tag=tag))


def _cancel(session: Session, channel: Channel, method: m.BasicCancel) -> None:
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None:
        consumer.queue.unsubscribe(consumer)  # may deliver, and must before we say cancel-ok
        channel.consumers.pop(method.consumer_tag, None)
    else:
        address = channel.reply_address
        if address is not None and address.consumer_tag == method.consumer_tag:
            channel.close_reply_address()
    if not method.nowait:
        session.send(channel.number, m.BasicCancelOk(consumer_tag=method.consumer_tag))


def _cancel_ok(session: Session, channel: Channel, method: m.BasicCancelOk) -> None:
    """Some clients answer our basic.cancel although it says that they need not."""


def _get(session: Session, channel: Channel, method: m.BasicGet) -> None:
    name = channel.queue_name(method.queue)
    session.check("read", "queue", name)
    queue = session.open_vhost.get_queue_for(name, session)
    run = queue.take_one()
    if run is None:
        channel.got_nothing += 1
        session.send(channel.number, m.BasicGetEmpty())
        return
    getter = Consumer(queue, channel, "", no_ack=method.no_ack)
    channel.delivery_tag += 1
    tag = channel.delivery_tag
    channel.got_no_ack += method.no_ack
    queue.delivered(getter, run, 1)
    head = method_frame(
        channel.number,
        m.BasicGetOk(
            delivery_tag=tag,
            redelivered=run.deliveries > 0,
            exchange=run.route.exchange,
            routing_key=run.route.key,
            message_count=queue.backlog.count,
        ),
    )
    session.send_bytes(head + channel.adapt(channel.stamped(queue, run), run.channel_number)[0])
    if not method.no_ack:
        lease = channel.unacked.add(tag, getter, run)
        queue.watch(channel, lease)


def _settle(channel: Channel, tag: int, *, multiple: bool, requeue: bool) -> None:
    transaction = channel.transaction
    if transaction is None:
        channel.reject(tag, multiple=multiple, requeue=requeue)
        return
    transaction.settle(channel.claim(tag, None if multiple else tag), requeue)


def _reject(session: Session, channel: Channel, method: m.BasicReject) -> None:
    _settle(channel, method.delivery_tag, multiple=False, requeue=method.requeue)


def _nack(session: Session, channel: Channel, method: m.BasicNack) -> None:
    _settle(channel, method.delivery_tag, multiple=method.multiple, requeue=method.requeue)


def _recover(session: Session, channel: Channel, method: m.BasicRecover) -> None:
    _recover_async(session, channel, method)
    session.send(channel.number, m.BasicRecoverOk())


def _recover_async(
    session: Session, channel: Channel, method: m.BasicRecover | m.BasicRecoverAsync
) -> None:
    if not method.requeue:
        raise Unsupported("requeue=false")
    channel.recover()


HANDLERS: dict[int, Any] = {
    m.BasicQos.wire_id: _qos,
    m.BasicConsume.wire_id: _consume,
    m.BasicCancel.wire_id: _cancel,
    m.BasicCancelOk.wire_id: _cancel_ok,
    m.BasicGet.wire_id: _get,
    m.BasicReject.wire_id: _reject,
    m.BasicNack.wire_id: _nack,
    m.BasicRecover.wire_id: _recover,
    m.BasicRecoverAsync.wire_id: _recover_async,
}
