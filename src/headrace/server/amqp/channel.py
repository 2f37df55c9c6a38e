"""One AMQP channel: its consumers, what it holds unacknowledged, its confirms.

deliver() is on the path of every message: it appends to the session's output and does nothing
per message that a list operation can do for the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING

from headrace.core.consumer import Consumer
from headrace.core.queue import Queue
from headrace.core.replies import ReplyAddress
from headrace.errors import NotFound, PreconditionFailed
from headrace.model.message import Batch, Route, Run
from headrace.model.unacked import Lease, Settled, Unacked
from headrace.server.amqp.confirms import Confirms
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import properties_of, rechannel_all, reframe, with_properties
from headrace.wire.amqp.properties import HeaderTable
from headrace.wire.amqp.values import Long, short_string

if TYPE_CHECKING:
    from headrace.server.amqp.session import Session
    from headrace.server.amqp.transaction import Transaction

_tag_bytes = Struct(">Q").pack
_HEAD = Struct(">BHIHH").pack

OUT_HIGH = 1 << 20  # bytes collected for one socket in one turn before consumers must wait
HELD_LIMIT = 16 << 20  # bytes a channel holds unacknowledged in memory; more is only stored
UNLIMITED = 1024  # messages handed to a consumer without a limit before others get a look


class Channel:
    """State of one open channel. Also the core's Subscriber for its consumers."""

    __slots__ = (
        "closing",
        "confirms",
        "connection",
        "consumers",
        "default_prefetch",
        "delivery_tag",
        "held",
        "held_bytes",
        "last_queue",
        "number",
        "prefetch",
        "reply_address",
        "session",
        "transaction",
        "unacked",
    )

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.connection: object = session
        self.number = number
        self.closing = False  # we sent channel.close and wait for close-ok
        self.consumers: dict[str, Consumer] = {}
        self.unacked: Unacked[Consumer] = Unacked()
        self.held = 0  # unacknowledged deliveries to consumers (gets do not count)
        self.held_bytes = 0
        self.delivery_tag = 0
        self.default_prefetch = 0  # for consumers to come
        self.prefetch = 0  # shared by all consumers of the channel
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.last_queue: str | None = None
        self.reply_address: ReplyAddress | None = None

    def queue_name(self, name: str) -> str:
        """The empty name means the queue declared last on this channel."""
        if name:
            return name
        if self.last_queue is None:
            raise NotFound("no previously declared queue")
        return self.last_queue

    # -- Subscriber -----------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        session = self.session
        if session.is_full:
            session.starved.add(consumer.queue)
            return 0
        if consumer.no_ack:
            return UNLIMITED
        room = consumer.prefetch - consumer.unacked if consumer.prefetch else UNLIMITED
        if self.prefetch and self.prefetch - self.held < room:
            room = self.prefetch - self.held
        return room

    def deliver(self, consumer: Consumer, run: Run) -> None:
        session = self.session
        contents = run.contents
        n = len(contents)
        if not n:
            return  # everything in it was damaged
        route = run.route
        wire = route.wire or _wire(route)
        tail = wire[1] if run.deliveries else wire[0]
        head = consumer.wire.get(len(tail))
        if head is None:
            head = self._deliver_head(consumer, len(tail))
        queue = consumer.queue
        if queue.settings.queue_type == "quorum":
            contents = self.stamped(queue, run)
        tag = self._write(head, tail, self.adapt(contents, run.origin))
        session.out_bytes += run.size + n * (len(head) + 8 + len(tail))
        if session.out_bytes > OUT_HIGH:
            session.is_full = True
        if not session.marked:
            session.turn.mark_session(session)
        queue.delivered(consumer, run, n)
        if not consumer.no_ack:
            self.held += n
            self.held_bytes += run.size
            lease = self.unacked.add(tag, consumer, run)
            if run.persistent and queue.number is not None and self.held_bytes > HELD_LIMIT:
                run.stash()
            if queue.settings.ack_timeout_ms is not None:
                queue.watch(self, lease)

    def stamped(self, queue: Queue, run: Run) -> list[bytes]:
        """The run's contents; those of quorum queues show how often they were delivered."""
        if queue.settings.queue_type != "quorum":
            return run.contents
        return _with_delivery_count(run.contents, run.deliveries)

    def adapt(self, contents: list[bytes], origin: int) -> list[bytes]:
        """Contents as this peer must get them: its channel number, frames of its size."""
        if self.session.small_frames:
            return [reframe(one, self.number, self.session.frame_max) for one in contents]
        if origin != self.number:
            return rechannel_all(contents, self.number)
        return contents

    def _write(self, head: bytes, tail: bytes, contents: list[bytes]) -> int:
        """Append basic.deliver frames with their contents; return the first tag."""
        n = len(contents)
        tag = self.delivery_tag + 1
        self.delivery_tag += n
        if n == 1:
            self.session.out += (head, _tag_bytes(tag), tail, contents[0])
        else:
            block = [head] * (4 * n)
            block[1::4] = map(_tag_bytes, range(tag, tag + n))
            block[2::4] = [tail] * n
            block[3::4] = contents
            self.session.out += block
        return tag

    def deliver_reply(self, batch: Batch) -> None:
        """An answer to this channel's direct reply-to address."""
        address = self.reply_address
        if address is None or self.closing:
            return
        tail = (batch.route.wire or _wire(batch.route))[0]
        head = self._head(address.consumer_tag, len(tail))
        self._write(head, tail, self.adapt(batch.contents, batch.origin))
        if not self.session.marked:
            self.session.turn.mark_session(self.session)

    def _deliver_head(self, consumer: Consumer, tail_length: int) -> bytes:
        head = consumer.wire[tail_length] = self._head(consumer.tag, tail_length)
        return head

    def _head(self, consumer_tag: str, tail_length: int) -> bytes:
        """Everything of a basic.deliver frame before the tag; depends on the frame's size only."""
        encoded = short_string(consumer_tag)
        size = 4 + len(encoded) + 8 + tail_length - 1
        return _HEAD(1, self.number, size, 60, 60) + encoded

    def cancelled(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        if self.session.notify_cancel and not self.closing:
            self.session.send(self.number, m.BasicCancel(consumer_tag=consumer.tag, nowait=True))

    # -- settling -------------------------------------------------------------------------------

    def acknowledge(self, first: int, last: int) -> None:
        parts, unknown = self.unacked.take(first, last)
        self._acknowledge(parts)
        if unknown is not None:
            raise PreconditionFailed(f"unknown delivery tag {unknown}")

    def acknowledge_upto(self, tag: int) -> None:
        self._acknowledge(self.unacked.take_upto(tag))

    def _acknowledge(self, parts: list[Settled[Consumer]]) -> None:
        for part in parts:
            self._release(part)
            part.owner.queue.acknowledge(part)
        self._credit()

    def reject(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        """Give messages back, or give them up."""
        unknown = None
        if multiple:
            parts = self.unacked.take_upto(tag)
        else:
            parts, unknown = self.unacked.take(tag, tag)
        self.give_back(parts, requeue=requeue)
        self._credit()
        if unknown is not None:
            raise PreconditionFailed(f"unknown delivery tag {unknown}")

    def give_back(self, parts: Iterable[Settled[Consumer]], *, requeue: bool) -> None:
        by_queue: dict[Queue, list[Settled[Consumer]]] = {}
        for part in parts:
            self._release(part)
            by_queue.setdefault(part.owner.queue, []).append(part)
        for queue, members in by_queue.items():
            if requeue:
                queue.requeue(members)
            else:
                queue.reject(members)

    def expire(self, lease: Lease[Consumer]) -> list[Settled[Consumer]]:
        """The queue's ack time-out takes a lease back."""
        parts = self.unacked.expire(lease)
        for part in parts:
            self._release(part)
        self._credit()
        return parts

    def recover(self) -> None:
        """Everything unacknowledged goes back to its queue."""
        self.give_back(self.unacked.take_upto(0), requeue=True)

    def _release(self, part: Settled[Consumer]) -> None:
        if part.owner.tag:
            self.held -= part.count
            self.held_bytes -= part.run.size * part.count // len(part.run.offsets)

    def _credit(self) -> None:
        """With a limit shared by the channel, any settling may let any of its queues go on."""
        if self.prefetch:
            self.mark_queues()

    def mark_queues(self) -> None:
        for consumer in self.consumers.values():
            if consumer.queue.backlog.count:
                consumer.queue.mark()

    # -- life -----------------------------------------------------------------------------------

    def release(self) -> None:
        """The channel ends: consumers go, unacknowledged messages return to their queues."""
        self.closing = True
        if self.transaction is not None:
            self.transaction.rollback()
        self.close_reply_address()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        # Consumers first: what they held must not be dealt to them again.
        for consumer in consumers:
            consumer.queue.dealer.remove(consumer)
        self.recover()
        for queue in {consumer.queue for consumer in consumers}:
            queue.consumers_left()

    def close_reply_address(self) -> None:
        if self.reply_address is not None:
            vhost = self.session.open_vhost
            vhost.replies.remove(self.reply_address)
            vhost.changed()
            self.reply_address = None


def _wire(route: Route) -> tuple[bytes, bytes]:
    """The end of a basic.deliver frame: redelivered bit, exchange, key; plain and redelivered."""
    names = short_string(route.exchange) + short_string(route.key) + b"\xce"
    wire = (b"\x00" + names, b"\x01" + names)
    route.wire = wire
    return wire


def _with_delivery_count(contents: list[bytes], deliveries: int) -> list[bytes]:
    stamped = []
    for content in contents:
        properties = properties_of(content)
        headers = properties.headers or HeaderTable()
        headers.set("x-delivery-count", Long(deliveries))
        properties.headers = headers
        stamped.append(with_properties(content, properties))
    return stamped
