"""What one channel of any protocol holds: its consumers, and messages that are not settled yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from headrace.core.loop_turn import LoopTurn, Steps
from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.core.reply_to import ReplyAddress
from headrace.core.vhost import Vhost
from headrace.errors import NotAllowed, PreconditionFailed
from headrace.model.message import PublishedRun, Run
from headrace.model.names import generated_consumer_tag
from headrace.model.queue_arguments import consumer_priority
from headrace.model.unacked import Lease, SettledRange, Unacked
from headrace.wire.amqp.content import with_delivery_count

OUT_HIGH = 1 << 20  # bytes collected for one socket in one turn before consumers must wait
SETTLE_AT_ONCE = 64  # leases
HELD_LIMIT = 16 << 20  # bytes a channel holds unacknowledged in memory; more is only stored
UNLIMITED = 1024  # messages handed to a consumer without a limit before others get a look
Parts = list[SettledRange[Consumer]]


class OutputWaiter(Protocol):
    """What has something to send and waits for room in the output."""

    def mark(self) -> None:
        """There is room again."""


class SessionOutput:
    """What a session sends in one loop turn: collected here, written at the end of the turn.

    Channels append to ``parts`` without asking the session; ``is_full`` stops deliveries, which
    then wait in their queues.
    """

    __slots__ = ("bytes", "flush", "is_full", "marked", "parts", "turn", "waiting")

    def __init__(self, turn: LoopTurn, flush: Callable[[], None]) -> None:
        self.turn = turn
        self.flush = flush  # writes the parts; called by the turn once this is marked
        self.parts: list[bytes | bytearray] = []
        self.bytes = 0
        self.is_full = False
        self.marked = False
        self.waiting: set[OutputWaiter] = set()  # queues and others that wait for room

    def write(self, part: bytes | bytearray) -> None:
        self.parts.append(part)
        self.bytes += len(part)
        if not self.marked:
            self.turn.mark_session(self)

    def mark(self) -> None:
        """Have flush() called at the end of the turn."""
        if not self.marked:
            self.turn.mark_session(self)

    def clear(self) -> None:
        self.parts.clear()
        self.bytes = 0

    def notify_waiters(self) -> None:
        """There is room again: let the waiting queues dispatch."""
        waiting, self.waiting = self.waiting, set()
        for one in waiting:
            one.mark()


class ChannelConnection(Protocol):
    """The connection of a channel, which owns its consumers and exclusive queues."""

    @property
    def open_vhost(self) -> Vhost: ...


class ChannelStatus(NamedTuple):
    """What the management API shows of confirms, transactions and the shared prefetch."""

    confirms: bool = False
    transactional: bool = False
    confirmed: int = 0
    unconfirmed: int = 0
    uncommitted_publishes: int = 0
    uncommitted_acks: int = 0
    global_prefetch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class BaseChannel:
    """Consumers and unsettled deliveries, by tag. A protocol's channel adds how they are sent."""

    output: SessionOutput
    connection: ChannelConnection
    closing: bool = False
    consumers: dict[str, Consumer] = field(default_factory=dict)
    reply_address: ReplyAddress | None = None  # its consumer is none of a queue
    unacked: Unacked[Consumer] = field(default_factory=Unacked)
    unacked_count: int = 0  # unacknowledged deliveries to consumers (gets do not count)
    unacked_bytes: int = 0
    delivery_tag: int = 0
    default_prefetch: int = 0  # for consumers to come
    prefetch: int = 0  # shared by all consumers of the channel
    published: int = 0
    returned: int = 0
    dropped: int = 0
    got_no_ack: int = 0
    got_nothing: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    redelivered: int = 0
    acked: int = 0

    # -- consumers ------------------------------------------------------------------------------

    def free_tag(self, wanted: str) -> str:
        """The wanted consumer tag, or a new one; NotAllowed when it is in use."""
        replies = self.reply_address
        if wanted in self.consumers or (replies is not None and replies.consumer_tag == wanted):
            raise NotAllowed(f"attempt to reuse consumer tag '{wanted}'")
        return wanted or generated_consumer_tag(os.urandom(16))

    def consume(
        self, queue: Queue, tag: str, arguments: Mapping[str, object], *, no_ack: bool, alone: bool
    ) -> None:
        """Subscribe a consumer; ``alone``: it wants to be the only one of the queue."""
        consumer = Consumer(
            queue,
            self,
            tag,
            no_ack=no_ack,
            exclusive=alone,
            prefetch=self.default_prefetch,
            priority=consumer_priority(arguments),
            arguments=arguments,
        )
        queue.subscribe(consumer)
        self.consumers[tag] = consumer

    def consume_replies(self, tag: str, *, no_ack: bool) -> None:
        """Direct reply-to: what is sent to a new address arrives here, through no queue."""
        if not no_ack:
            raise PreconditionFailed("reply consumer cannot acknowledge")
        if self.reply_address is not None:
            raise PreconditionFailed("reply consumer already set")
        self.reply_address = ReplyAddress(tag, self.deliver_reply)
        self.connection.open_vhost.replies.add(self.reply_address)
        self.connection.open_vhost.routes.changed()

    def close_reply_address(self) -> None:
        if self.reply_address is not None:
            self.connection.open_vhost.replies.remove(self.reply_address)
            self.connection.open_vhost.routes.changed()
            self.reply_address = None

    # -- giving out -----------------------------------------------------------------------------

    def room(self, consumer: Consumer) -> int:
        output = self.output
        if output.is_full:
            output.waiting.add(consumer.queue)
            return 0
        if consumer.no_ack:
            # What is never acknowledged does not count, but a full channel waits as a whole.
            return UNLIMITED if not self.prefetch or self.unacked_count < self.prefetch else 0
        room = consumer.prefetch - consumer.unacked if consumer.prefetch else UNLIMITED
        if self.prefetch and self.prefetch - self.unacked_count < room:
            room = self.prefetch - self.unacked_count
        return room

    def stamped(self, queue: Queue, run: Run) -> list[bytes]:
        """The run's contents; those of quorum queues show how often they were delivered."""
        if queue.settings.queue_type != "quorum":
            return run.contents
        return with_delivery_count(run.contents, run.deliveries)

    def add_delivered_bytes(self, size: int) -> None:
        """Bytes of deliveries were added to the output."""
        output = self.output
        output.bytes += size
        if output.bytes > OUT_HIGH:
            output.is_full = True
        if not output.marked:
            output.turn.mark_session(output)

    def note_delivered(self, consumer: Consumer, tag: int, run: Run, n: int) -> None:
        """The run is on its way: count it, and hold it until it is settled."""
        queue = consumer.queue
        queue.delivered(consumer, run, n)
        self.delivered += n
        if run.deliveries:
            self.redelivered += n
        if self.prefetch:
            self._behind_the_others(consumer)
        if consumer.no_ack:
            self.delivered_no_ack += n
        else:
            self.unacked_count += n
            self.unacked_bytes += run.size
            lease = self.unacked.add(tag, consumer, run)
            if run.persistent and queue.number is not None and self.unacked_bytes > HELD_LIMIT:
                run.page_out()
            if queue.settings.ack_timeout_ms is not None:
                queue.watch(self, lease)

    def _behind_the_others(self, consumer: Consumer) -> None:
        """With a limit shared by the channel, its consumers take turns over all their queues."""
        if consumer.tag in self.consumers:
            self.consumers[consumer.tag] = self.consumers.pop(consumer.tag)

    # -- settling -------------------------------------------------------------------------------

    def acknowledge(self, first: int, last: int) -> None:
        parts, unknown = self.unacked.take(first, last)
        self._acknowledge(parts)
        if unknown is not None:
            raise PreconditionFailed(f"unknown delivery tag {unknown}")

    def acknowledge_upto(self, tag: int) -> None:
        """Acknowledge every outstanding tag up to ``tag`` (0 = all)."""
        self._settle_upto(tag, self._acknowledge)

    def _settle_upto(self, tag: int, settle: Callable[[Parts], None]) -> None:
        """Settle what is outstanding; if that is very much, over several loop turns."""
        last = self.delivery_tag  # what is delivered from now on is not meant
        parts = self.unacked.take_upto(tag, SETTLE_AT_ONCE)
        settle(parts)
        if len(parts) == SETTLE_AT_ONCE:
            self.output.turn.run(self._settle_rest(tag or last, settle))

    def _settle_rest(self, tag: int, settle: Callable[[Parts], None]) -> Steps:
        while parts := self.unacked.take_oldest(tag, SETTLE_AT_ONCE):
            settle(parts)
            yield

    def _take_these(self, tags: Iterable[tuple[int, int]]) -> Parts:
        return [part for start, stop in tags for part in self.unacked.take_between(start, stop)]

    def _acknowledge(self, parts: Parts) -> None:
        self._credit()
        for part in parts:
            self.release_credit(part)
            self.acked += part.count
            part.owner.queue.acknowledge(part)

    def acknowledge_counted(self, counts: Mapping[Consumer, tuple[int, int]]) -> None:
        """Messages and bytes that were taken of each consumer are acknowledged."""
        self._credit()
        for consumer, (count, size) in counts.items():
            if consumer.tag:
                self.unacked_count -= count
                self.unacked_bytes -= size
            self.acked += count
            consumer.queue.acknowledge_counted(consumer, count)

    def reject(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        """Give messages back, or give them up."""
        if multiple:
            self._settle_upto(tag, partial(self._return, requeue=requeue))
            return
        parts, unknown = self.unacked.take(tag, tag)
        self._return(parts, requeue=requeue)
        if unknown is not None:
            raise PreconditionFailed(f"unknown delivery tag {unknown}")

    def reject_these(self, tags: Iterable[tuple[int, int]], *, requeue: bool) -> None:
        """Requeue or drop the unacked messages in ranges of tags, stops exclusive."""
        self._return(self._take_these(tags), requeue=requeue)

    def _return(self, parts: Parts, *, requeue: bool) -> None:
        if not requeue:
            self._credit()
        self.return_to_queues(parts, requeue=requeue)
        if requeue:
            self._credit()

    def return_to_queues(self, parts: Iterable[SettledRange[Consumer]], *, requeue: bool) -> None:
        by_queue: dict[Queue, Parts] = {}
        for part in parts:
            self.release_credit(part)
            by_queue.setdefault(part.owner.queue, []).append(part)
        for queue, members in by_queue.items():
            if requeue:
                queue.requeue(members)
            else:
                queue.reject(members)

    def expire(self, lease: Lease[Consumer]) -> Parts:
        """The queue's ack time-out takes a lease back."""
        parts = self.unacked.expire(lease)
        for part in parts:
            self.release_credit(part)
        self._credit()
        return parts

    def recover(self) -> None:
        """Everything unacknowledged goes back to its queue."""
        self._settle_upto(0, partial(self.return_to_queues, requeue=True))

    def release_credit(self, part: SettledRange[Consumer]) -> None:
        """The messages are not held any more."""
        if part.owner.tag:
            self.unacked_count -= part.count
            self.unacked_bytes -= part.run.size * part.count // len(part.run.offsets)

    def _credit(self) -> None:
        """With a limit shared by the channel, any settling may let any of its queues go on.

        Before an acknowledgement itself, which marks its own queue: that one has had its turn.
        """
        if self.prefetch:
            self.mark_queues()

    def mark_queues(self) -> None:
        for consumer in self.consumers.values():
            if consumer.queue.backlog.count:
                consumer.queue.mark()

    # -- what a protocol adds -------------------------------------------------------------------

    def deliver(self, consumer: Consumer, run: Run) -> None:
        """Send the messages to the client."""
        raise NotImplementedError

    def deliver_reply(self, batch: PublishedRun) -> None:
        """An answer to this channel's direct reply-to address."""
        raise NotImplementedError

    def cancelled(self, consumer: Consumer) -> None:
        """The queue is gone, and with it the consumer."""
        raise NotImplementedError

    def status(self) -> ChannelStatus:
        return ChannelStatus()

    # -- life -----------------------------------------------------------------------------------

    def refuse_consumer(self, consumer: Consumer) -> None:
        """The user may not read the queue any more."""
        raise NotImplementedError

    def drop_consumers(self) -> None:
        """The channel ends: consumers go, unacknowledged messages return to their queues."""
        consumers = list(self.consumers.values())
        self.consumers.clear()
        # Consumers first: what they held must not be dealt to them again.
        for consumer in consumers:
            consumer.queue.consumers.remove(consumer)
        self.recover()
        for queue in {consumer.queue for consumer in consumers}:
            queue.consumers_left()
