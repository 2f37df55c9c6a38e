"""What was delivered on a channel and not settled yet, and the settlements still to be sent.

Acknowledging is cheap: tags are collected and go out in as few requests as possible. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from headrace.client.errors import AlreadySettled
from headrace.client.properties import BasicProperties, received_properties

Row = Mapping[str, Any]
Batch = Mapping[int, Row]
"""Messages by tag, in their order."""
Later = Callable[[float, Callable[[], None]], object]
_MANY = 256


class ReceivedDelivery:
    """One message, as it came, without the means to settle it, which differ."""

    __slots__ = ("_row", "_unsettled", "body", "consumer_tag", "tag")

    def __init__(
        self, unsettled: UnsettledDeliveries, tag: int, consumer_tag: str, row: Row
    ) -> None:
        self._unsettled = unsettled
        self._row = row
        self.tag = tag
        self.consumer_tag = consumer_tag
        self.body: bytes = row["body"]

    @property
    def is_settled(self) -> bool:
        """True when it needs no ack any more; also when its connection is gone."""
        return self.tag not in self._unsettled.outstanding

    @property
    def properties(self) -> BasicProperties:
        return received_properties(self._row, self.tag)

    @property
    def property_map(self) -> Mapping[str, Any]:
        """Those which are set, as they came: cheaper than `properties`. Not to be changed."""
        found: Mapping[str, Any] = self._row["properties"]
        return found

    @property
    def message_id(self) -> str:
        return str(self._row["properties"]["message_id"])

    @property
    def queue(self) -> str:
        return str(self._row["queue"])

    @property
    def exchange(self) -> str:
        return str(self._row["exchange"])

    @property
    def routing_key(self) -> str:
        return str(self._row["key"])

    @property
    def redelivered(self) -> bool:
        return bool(self._row["redelivered"])

    def __repr__(self) -> str:
        return f"<Delivery {self.tag} {self._row['key']!r}, {len(self.body)} bytes>"


class Delivery(ReceivedDelivery):
    """A message to be settled once, with ack() or nack(); any thread may."""

    __slots__ = ()

    def ack(self) -> None:
        """Acknowledge. Sent soon, together with others, and before the channel's next call."""
        self._unsettled.ack(self.tag)

    def nack(self, requeue: bool = True) -> None:
        """Requeue, or with ``requeue=False`` dead-letter (drop without a dead-letter exchange)."""
        self._unsettled.nack(self.tag, requeue)


D = TypeVar("D", bound=ReceivedDelivery)


def name_of(row: Row) -> tuple[str, str]:
    """How a program calls a message: queue and message id."""
    return row["queue"], row["properties"]["message_id"]


class Settlement(NamedTuple):
    """One request's worth: an ack or a nack (``requeue`` is not None) of a tag of the wire."""

    tag: int
    multiple: bool = False
    requeue: bool | None = None
    keep: bool = False


class UnsettledDeliveries:
    """Deliveries of one channel, over all its connections.

    The broker counts tags from 1 on every connection. Here they continue, so that a tag which a
    program kept over a reconnection can never settle another message.
    """

    def __init__(self, notify: Callable[[bool], None], later: Later) -> None:
        """``notify`` is called when there is something to send where there was nothing.

        With True when so much has come together that it should be sent at once: the broker is
        to send more before the consumer has run dry. ``later`` calls back after some seconds.
        """
        self._later = later
        self.outstanding: dict[int, Row] = {}  # in the order of tags
        self.current = 0
        """The message that a callback is at: most probably the next to be settled."""
        self._notify = notify
        self._urgent_at = _MANY
        self._base = 0
        self._last = 0
        self._acks: list[int] = []
        self._nacks: list[tuple[int, bool, bool]] = []
        self._untracked: set[int] = set()
        self._by_id: dict[tuple[str, str], int] | None = None  # made when first asked for
        self._lock = Lock()

    def register(self, rows: Sequence[Row], *, untracked: bool = False) -> Batch:
        """Note what came and may be settled.

        ``untracked``: the broker forgot it when it sent it, so settling it stays here.
        """
        with self._lock:
            base = self._base
            found = {base + row["tag"]: row for row in rows}
            self.outstanding.update(found)
            if untracked:
                self._untracked.update(found)
            self._last = max(self._last, next(reversed(found)))
            if self._by_id is not None:
                self._by_id.update((name_of(row), tag) for tag, row in found.items())
        return found

    def settled_already(self, row: Row) -> int:
        """The tag of a message that the broker forgot when it sent it."""
        tag: int = self._base + row["tag"]
        self._last = max(self._last, tag)
        return tag

    def ack(self, tag: int) -> None:
        with self._lock:
            row = self.outstanding.pop(tag, None)
            # Nearly always there is nothing more to it; this is done for every message.
            if (row is None or self._by_id is not None or self._untracked) and not self._settled(
                tag, row
            ):
                return
            acks = self._acks
            acks.append(tag)
            count = len(acks)
        is_urgent = count >= self._urgent_at
        if is_urgent or (count == 1 and not self._nacks):
            self._notify(is_urgent)

    def ack_unless_settled(self, tag: int) -> None:
        """After a callback, which may have settled its message itself."""
        try:  # not contextlib.suppress(), which costs as much as the rest
            self.ack(tag)
        except AlreadySettled:
            return

    def nack(self, tag: int, requeue: bool, keep: bool = False) -> None:
        """``keep``: where the queue has no dead letters the message stays unacknowledged."""
        with self._lock:
            if not self._settled(tag, self.outstanding.pop(tag, None)):
                return
            is_first = not self._acks and not self._nacks
            self._nacks.append((tag, requeue, keep))
        if is_first:
            self._notify(False)

    def nack_later(self, tag: int, seconds: float) -> None:
        """Requeue the message after a pause, unless it is settled by then."""
        if tag in self.outstanding:
            self._later(seconds, lambda: self.requeue((tag,)))

    def expect(self, prefetch: int) -> None:
        """How many messages the broker sends without an acknowledgement; 0 = no limit."""
        self._urgent_at = min(_MANY, max(1, prefetch // 4)) if prefetch else _MANY

    def _settled(self, tag: int, row: Row | None) -> bool:
        """False when the broker need not know; also when it has taken the message back itself."""
        if row is None:
            if tag <= self._base:
                return False
            raise AlreadySettled(f"delivery {tag} was settled before, or is not of this channel")
        if self._by_id is not None:
            self._by_id.pop(name_of(row), None)
        if tag in self._untracked:
            self._untracked.discard(tag)
            return False
        return True

    def requeue(self, tags: Iterable[int]) -> None:
        """Requeue those which are not settled."""
        for tag in tags:
            if tag in self.outstanding:
                self.nack(tag, requeue=True)

    # -- settling with an answer of the broker ---------------------------------------------------

    def find(self, queue: str, message_id: str) -> int | None:
        """The tag of an unsettled delivery."""
        name, tag = (queue, message_id), self.current
        row = self.outstanding.get(tag)
        if row is not None and name_of(row) == name:
            return tag
        with self._lock:
            if self._by_id is None:
                self._by_id = {name_of(row): tag for tag, row in self.outstanding.items()}
            return self._by_id.get(name)

    def ack_current(self, queue: str | None, message_id: str | None) -> bool:
        """Acknowledge the message that a callback is at, if it is that one."""
        tag = self.current
        row = self.outstanding.get(tag)
        if row is None or row["queue"] != queue or row["properties"]["message_id"] != message_id:
            return False
        self.ack(tag)
        return True

    def is_stale(self, tag: int) -> bool:
        return 0 < tag <= self._base

    def wire_tag(self, tag: int) -> int:
        return tag - self._base if tag else 0

    def claim(self, tag: int, multiple: bool) -> None:
        """The caller settles these by a request; the broker judges unknown ones.

        Call it after the settlements were taken and while no other thread can send.
        """
        with self._lock:
            tags = [tag]
            if multiple:
                tags = [one for one in self.outstanding if not tag or one <= tag]
            for one in tags:
                row = self.outstanding.pop(one, None)
                if row is not None and self._by_id is not None:
                    self._by_id.pop(name_of(row), None)

    # -- for the sender -----------------------------------------------------------------------

    def take_settlements(self) -> list[Settlement]:
        """What is to be sent now, in this order, in as few requests as possible."""
        if not self._acks and not self._nacks:
            return []
        with self._lock:
            acks, nacks, base = self._acks, self._nacks, self._base
            self._acks, self._nacks = [], []
            floor = next(iter(self.outstanding), self._last + 1)
        # Nacks first: an ack of many covers everything below it that is not settled yet.
        found = [Settlement(tag - base, False, requeue, keep) for tag, requeue, keep in nacks]
        acks.sort()
        below = [tag for tag in acks if tag < floor]
        if below:
            found.append(Settlement(below[-1] - base, multiple=len(below) > 1))
        found += [Settlement(tag - base) for tag in acks[len(below) :]]
        return found

    def reset(self) -> None:
        """The connection is gone: the broker has taken everything back."""
        with self._lock:
            self._base = self._last
            self.outstanding.clear()
            self._untracked.clear()
            self._acks, self._nacks = [], []
            self._by_id = None
