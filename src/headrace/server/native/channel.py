"""One native channel: its consumers, and what it holds unacknowledged, by tag and by message id.

deliver() is on the path of every message: a run becomes one push frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.queues.consumer import Consumer
from headrace.core.queues.queue import Queue
from headrace.core.reply_to import PSEUDO_QUEUE
from headrace.core.topics.async_engine import CancelRead
from headrace.errors import AccessRefused, BrokerError, NotFound
from headrace.model.message import PublishedRun, Run
from headrace.model.permissions import READ, refusal_text
from headrace.model.unacked import SettledRange
from headrace.server.base_channel import BaseChannel
from headrace.wire.native import deliveries
from headrace.wire.native.error_codes import code_of
from headrace.wire.native.payloads import Op, message

if TYPE_CHECKING:
    from headrace.server.native.session import Session

MAX_HELD = 100_000  # unacknowledged messages of a channel: each has a name to remember


class ChannelRead(NamedTuple):
    """A read of a topic that is answered when there is something to read."""

    resource: str  # what the user must be allowed to read
    cancel: CancelRead
    refuse: Callable[[BrokerError], None]


class Channel(BaseChannel):
    """State of one open channel. Also the core's Subscriber for its consumers."""

    __slots__ = ("_ids", "_tags", "number", "owner", "waiting")

    def __init__(self, owner: Session, number: int | str) -> None:
        super().__init__(owner.output, owner)
        self.owner = owner
        self.number = number
        self.prefetch = MAX_HELD
        self._ids: dict[Queue, dict[int, str]] = {}  # by offset
        self._tags: dict[Queue, dict[str, int]] = {}  # by message id, as delivered
        self.waiting: dict[object, ChannelRead] = {}  # reads of topics without an answer yet

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, run: Run) -> None:
        if not run.contents:
            return  # everything in it was damaged
        first = self.delivery_tag + 1
        self._push(consumer.tag, self._entries(consumer, run))
        self.note_delivered(consumer, first, run, len(run.contents))

    def _push(self, consumer_tag: str, entries: Iterator[bytes]) -> None:
        size = 0
        for batch in deliveries.in_batches(entries):
            data = deliveries.push_frame(self.number, consumer_tag, batch)
            size += len(data)
            self.output.parts.append(data)
        self.add_delivered_bytes(size)

    def _entries(self, consumer: Consumer, run: Run) -> Iterator[bytes]:
        queue, route = consumer.queue, run.route
        shared = deliveries.common(
            route.exchange, route.key, queue.name, redelivered=run.deliveries > 0
        )
        split, entry = self.owner.packed_properties.split, deliveries.entry
        known = not consumer.no_ack
        for offset, content in zip(run.offsets, self.stamped(queue, run), strict=True):
            packed, name, body = split(content)
            self.delivery_tag += 1
            tag = self.delivery_tag
            if not name:
                name = f"M-{queue.uuid[:12]}-{offset:x}"
            if known:
                name = self._note_id(queue, offset, name, tag)
            yield entry(shared, packed, name, body, tag)

    def _note_id(self, queue: Queue, offset: int, name: str, tag: int) -> str:
        """Remember the message's id; one that is outstanding already gets a suffix."""
        tags = self._tags.get(queue)
        if tags is None:
            tags = self._tags[queue] = {}
            self._ids[queue] = {}
        while name in tags:
            name = f"{name}#{tag}"
        tags[name] = tag
        self._ids[queue][offset] = name
        return name

    def deliver_reply(self, batch: PublishedRun) -> None:
        """An answer to this channel's direct reply-to address; no queue has it any more."""
        if self.reply_address is not None and not self.closing:
            self._push(self.reply_address.consumer_tag, self._reply_entries(batch))

    def _reply_entries(self, batch: PublishedRun) -> Iterator[bytes]:
        route = batch.route
        shared = deliveries.common(route.exchange, route.key, PSEUDO_QUEUE, redelivered=False)
        for content in batch.contents:
            packed, name, body = self.owner.packed_properties.split(content)
            self.delivery_tag += 1
            tag = self.delivery_tag
            yield deliveries.entry(shared, packed, name or f"M-reply-{tag:x}", body, tag)

    def get_entry(self, getter: Consumer, run: Run) -> bytes:
        """The one message of ``run``, for the answer to a get."""
        first = self.delivery_tag + 1
        entry = next(self._entries(getter, run))
        getter.queue.delivered(getter, run, 1)
        if not getter.no_ack:
            getter.queue.watch(self, self.unacked.add(first, getter, run))
        return entry

    def cancelled(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        if not self.closing:
            fields = {"ch": self.number, "consumer_tag": consumer.tag}
            self.output.write(message(Op.CANCEL, fields))

    def refuse_consumer(self, consumer: Consumer) -> None:
        owner = self.owner
        text = refusal_text("queue", consumer.queue.name, owner.open_vhost.name, owner.user.name)
        self.consumers.pop(consumer.tag, None)
        consumer.queue.remove_consumer(consumer)
        fields = {
            "ch": self.number,
            "consumer_tag": consumer.tag,
            "code": code_of(AccessRefused(text)),
            "text": text,
        }
        self.output.write(message(Op.CANCEL, fields))

    def end_reads(self) -> None:
        """Refuse the waiting reads of what the user may not read any more."""
        owner = self.owner
        vhost, user = owner.open_vhost.name, owner.user
        for mark, read in list(self.waiting.items()):
            if not user.allows(vhost, READ, read.resource):
                del self.waiting[mark]
                read.cancel()
                read.refuse(AccessRefused(refusal_text("topic", read.resource, vhost, user.name)))

    # -- settling -------------------------------------------------------------------------------

    def tag_of(self, queue: Queue, name: str) -> int:
        """The tag of an outstanding message of the queue."""
        tag = self._tags.get(queue, {}).get(name)
        if tag is None:
            raise NotFound(f"no unacknowledged message '{name}' of queue '{queue.name}' here")
        return tag

    def release_credit(self, part: SettledRange[Consumer]) -> None:
        super().release_credit(part)
        queue = part.owner.queue
        ids, tags = self._ids.get(queue), self._tags.get(queue)
        if ids is None or tags is None:
            return
        for offset in part.run.offsets[part.start : part.stop]:
            tags.pop(ids.pop(offset, ""), None)
        if not ids:
            del self._ids[queue], self._tags[queue]

    # -- life -----------------------------------------------------------------------------------

    def release(self) -> None:
        self.closing = True
        self.close_reply_address()
        self.drop_consumers()
        for read in self.waiting.values():
            read.cancel()
        self.waiting.clear()
