"""One native channel: its consumers, and what it holds unacknowledged, by tag and by message id.

deliver() is on the path of every message: a run becomes one push frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.consumer import Consumer
from headrace.core.queue import Queue
from headrace.errors import NotFound
from headrace.model.message import Run
from headrace.model.unacked import Settled
from headrace.server.holding import Holding
from headrace.wire.native import pushes
from headrace.wire.native.messages import Op, message

if TYPE_CHECKING:
    from headrace.server.native.session import Session

MAX_HELD = 100_000  # unacknowledged messages of a channel: each has a name to remember


class Channel(Holding):
    """State of one open channel. Also the core's Subscriber for its consumers."""

    __slots__ = ("_ids", "_tags", "number", "session")

    def __init__(self, session: Session, number: int | str) -> None:
        super().__init__(session)
        self.session = session
        self.number = number
        self.prefetch = MAX_HELD
        self._ids: dict[Queue, dict[int, str]] = {}  # by offset
        self._tags: dict[Queue, dict[str, int]] = {}  # by message id, as delivered

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, run: Run) -> None:
        if not run.contents:
            return  # everything in it was damaged
        session = self.session
        first = self.delivery_tag + 1
        size = 0
        entries = self._entries(consumer, run)
        for batch in pushes.in_batches(entries):
            data = pushes.push_frame(self.number, consumer.tag, batch)
            size += len(data)
            session.out.append(data)
        self.note_sent(size)
        self.note_delivered(consumer, first, run, len(run.contents))

    def _entries(self, consumer: Consumer, run: Run) -> Iterator[bytes]:
        queue, route = consumer.queue, run.route
        shared = pushes.common(
            route.exchange, route.key, queue.name, redelivered=run.deliveries > 0
        )
        split, entry, known = self.session.pieces.split, pushes.entry, not consumer.no_ack
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
            self.session.send_bytes(message(Op.CANCEL, fields))

    # -- settling -------------------------------------------------------------------------------

    def tag_of(self, queue: Queue, name: str) -> int:
        """The tag of an outstanding message of the queue."""
        tag = self._tags.get(queue, {}).get(name)
        if tag is None:
            raise NotFound(f"no unacknowledged message '{name}' of queue '{queue.name}' here")
        return tag

    def let_go(self, part: Settled[Consumer]) -> None:
        super().let_go(part)
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
        self.drop_consumers()
