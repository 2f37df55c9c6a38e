"""One AMQP channel: its consumers, what it holds unacknowledged, its confirms.

deliver() is on the path of every message: it appends to the session's output and does nothing
per message that a list operation can do for the whole run.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Protocol

from headrace.core.access.user import User
from headrace.core.queues.consumer import Consumer
from headrace.core.vhost import Vhost
from headrace.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed
from headrace.model.message import PublishedRun, Route, Run
from headrace.model.permissions import refusal_text
from headrace.server.amqp.confirms import Confirms
from headrace.server.base_channel import BaseChannel, ChannelStatus, SessionOutput
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.content import rechannel_all, reframe
from headrace.wire.amqp.method_codec import Method
from headrace.wire.amqp.values import short_string

if TYPE_CHECKING:
    from headrace.server.amqp.transaction import TakenAcks, Transaction

_tag_bytes = Struct(">Q").pack
_CONSUME_IDS = (60, 20)
_HEAD = Struct(">BHIHH").pack


class ChannelOwner(Protocol):
    """The connection, as its channels see it."""

    output: SessionOutput
    user: User
    frame_max: int
    small_frames: bool
    notify_cancel: bool

    @property
    def open_vhost(self) -> Vhost: ...
    def notify(self, channel: int, method: Method) -> None: ...
    def close_channel(self, channel: Channel, error: BrokerError, ids: tuple[int, int]) -> None: ...


class Channel(BaseChannel):
    """State of one open channel. Also the core's Subscriber for its consumers."""

    __slots__ = (
        "confirms",
        "last_queue",
        "number",
        "owner",
        "transaction",
    )

    def __init__(self, owner: ChannelOwner, number: int) -> None:
        super().__init__(owner.output, owner)
        self.owner = owner
        self.number = number
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.last_queue: str | None = None

    def queue_name(self, name: str) -> str:
        """The empty name means the queue declared last on this channel."""
        if name:
            return name
        if self.last_queue is None:
            raise NotFound("no previously declared queue")
        return self.last_queue

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, run: Run) -> None:
        contents = run.contents
        n = len(contents)
        if not n:
            return  # everything in it was damaged
        route = run.route
        wire = route.wire or _wire(route)
        tail = wire[1] if run.deliveries else wire[0]
        head = consumer.wire.get(len(tail))
        if head is None:
            head = consumer.wire[len(tail)] = self._head(consumer.tag, len(tail))
        if run.deliveries:  # as RabbitMQ, which sends no count with a consumer's first delivery
            contents = self.stamped(consumer.queue, run)
        tag = self._write(head, tail, self.adapt(contents, run.channel_number))
        self.add_delivered_bytes(run.size + n * (len(head) + 8 + len(tail)))
        self.note_delivered(consumer, tag, run, n)

    def adapt(self, contents: list[bytes], channel_number: int) -> list[bytes]:
        """Contents as this peer must get them: its channel number, frames of its size."""
        if self.owner.small_frames:
            return [reframe(one, self.number, self.owner.frame_max) for one in contents]
        if channel_number != self.number:
            return rechannel_all(contents, self.number)
        return contents

    def _write(self, head: bytes, tail: bytes, contents: list[bytes]) -> int:
        """Append basic.deliver frames with their contents; return the first tag."""
        n = len(contents)
        tag = self.delivery_tag + 1
        self.delivery_tag += n
        if n == 1:
            self.output.parts += (head, _tag_bytes(tag), tail, contents[0])
        else:
            block = [head] * (4 * n)
            block[1::4] = map(_tag_bytes, range(tag, tag + n))
            block[2::4] = [tail] * n
            block[3::4] = contents
            self.output.parts += block
        return tag

    def deliver_reply(self, batch: PublishedRun) -> None:
        """An answer to this channel's direct reply-to address."""
        address = self.reply_address
        if address is None or self.closing:
            return
        tail = (batch.route.wire or _wire(batch.route))[0]
        head = self._head(address.consumer_tag, len(tail))
        self._write(head, tail, self.adapt(batch.contents, batch.channel_number))
        self.output.mark()

    def _head(self, consumer_tag: str, tail_length: int) -> bytes:
        """Everything of a basic.deliver frame before the tag; depends on the frame's size only."""
        encoded = short_string(consumer_tag)
        size = 4 + len(encoded) + 8 + tail_length - 1
        return _HEAD(1, self.number, size, 60, 60) + encoded

    def cancelled(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        if self.owner.notify_cancel and not self.closing:
            self.owner.notify(self.number, m.BasicCancel(consumer_tag=consumer.tag, nowait=True))

    def refuse_consumer(self, consumer: Consumer) -> None:
        if not self.closing:
            owner = self.owner
            vhost = owner.open_vhost.name
            text = refusal_text("queue", consumer.queue.name, vhost, owner.user.name)
            owner.close_channel(self, AccessRefused(text), _CONSUME_IDS)

    def status(self) -> ChannelStatus:
        confirms, transaction = self.confirms, self.transaction
        return ChannelStatus(
            confirms=confirms is not None,
            transactional=transaction is not None,
            confirmed=confirms.answered if confirms is not None else 0,
            unconfirmed=confirms.published - confirms.answered if confirms is not None else 0,
            uncommitted_publishes=transaction.publishes if transaction is not None else 0,
            uncommitted_acks=transaction.acks if transaction is not None else 0,
            global_prefetch=self.prefetch,
        )

    # -- settling -------------------------------------------------------------------------------

    def may_settle(self, tag: int) -> bool:
        """Whether the tag is outstanding, and not settled in the running transaction."""
        transaction = self.transaction
        if transaction is not None and tag in transaction.claimed:
            return False
        return self.unacked.knows(tag)

    def claim(self, first: int, last: int | None) -> list[tuple[int, int]]:
        """Ranges of tags that the running transaction settles; ``last`` None: all up to ``first``.

        They cannot be settled again before a rollback.
        """
        transaction = self.transaction
        assert transaction is not None
        if last is None:
            if first and not self.may_settle(first):
                raise PreconditionFailed(f"unknown delivery tag {first}")
            # Not what is delivered between now and the commit: the client has not seen it yet.
            return transaction.claim(1, first or self.delivery_tag)
        for tag in range(first, last + 1):
            if not self.may_settle(tag):
                raise PreconditionFailed(f"unknown delivery tag {tag}")
        return transaction.claim(first, last)

    def recover(self) -> None:
        """Everything goes back but what the running transaction has settled."""
        if self.transaction is None or not self.transaction.acks:
            super().recover()
            return
        free = self.transaction.claimed.missing(1, self.delivery_tag + 1)
        self.return_to_queues(self._take_these(free), requeue=True)

    def acknowledge_taken(self, taken: TakenAcks) -> None:
        """Acknowledge what a transaction has taken, without a look at single messages."""
        vhost = self.owner.open_vhost
        if vhost.events.on:
            for part in taken.parts:
                part.owner.queue.note_acknowledged(part)
        if vhost.storage.log is not None:
            vhost.storage.log.settle_ranges(taken.ranges)
        self.unacked.count -= sum(count for count, _ in taken.counts.values())
        self.acknowledge_counted(taken.counts)

    # -- life -----------------------------------------------------------------------------------

    def release(self) -> None:
        """The channel ends: consumers go, unacknowledged messages return to their queues."""
        self.closing = True
        taken = []
        if self.transaction is not None:
            taken = self.transaction.give_up_acks()
            self.transaction.rollback()
        self.close_reply_address()
        self.drop_consumers()
        self.unacked.count -= sum(part.count for part in taken)
        self.return_to_queues(taken, requeue=True)


def _wire(route: Route) -> tuple[bytes, bytes]:
    """The end of a basic.deliver frame: redelivered bit, exchange, key; plain and redelivered."""
    names = short_string(route.exchange) + short_string(route.key) + b"\xce"
    wire = (b"\x00" + names, b"\x01" + names)
    route.wire = wire
    return wire
