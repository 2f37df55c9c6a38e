"""Messages as the core sees them: routes, and runs of equal messages. No I/O, no clock.

A message's content is opaque bytes. What differs between messages and matters to the broker
(route, expiry, how often it was delivered) is kept once per run, never once per message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Destination(Protocol):
    """Where a route can end: a queue, a topic, a direct reply-to address."""

    name: str

    def put(self, batch: PublishedRun) -> bool:
        """Take all messages of the batch, or return False when some were refused."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Route:
    """Where messages with one exchange and routing key go. Shared by all such messages."""

    exchange: str
    key: str
    destinations: Sequence[Destination] = ()
    _: KW_ONLY
    by_headers: bool = False  # the destinations depend on each message's headers
    wire: Any = field(init=False, default=None)  # a protocol's encoded form, kept by its session


@dataclass(slots=True, eq=False, repr=False)
class PublishedRun:
    """Consecutive messages of one publisher with the same route and flags, being published."""

    route: Route
    contents: list[bytes]  # shared between destinations: never changed
    size: int
    _: KW_ONLY
    channel_number: int = 0  # the channel number inside the contents' frames
    persistent: bool = False
    ttl_ms: int | None = None
    refused: set[int] | None = field(init=False, default=None)  # indices some destination refused
    placed: list[tuple[int, int, int]] = field(init=False, default_factory=list)
    """(queue number, first offset, count)"""
    level: int = field(init=False, default=0)  # the strongest durability a destination asks for
    position: int = field(init=False, default=0)  # to wait for before a confirm; 0 = nothing
    engine_confirms: Any = field(init=False, default=None)
    """Other engines that a confirm has to wait for (core.topics)."""


PAGED_OUT: list[bytes] = []  # in place of contents that are not in memory; compared by identity


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """Messages in a queue, or delivered from one: same route, expiry and delivery count.

    ``offsets[i]`` is the queue's number of ``contents[i]``; numbers rise and are never reused, so
    they say where a requeued message belongs. Messages before ``start`` are gone already.
    ``measure`` says what a content counts for; queues with a limit in bytes replace it.
    """

    measure: ClassVar[Callable[[bytes], int]] = len

    route: Route
    contents: list[bytes]
    offsets: Sequence[int]
    size: int  # bytes of the contents from ``start`` on
    _: KW_ONLY
    channel_number: int = 0  # as in PublishedRun
    persistent: bool = False
    expires: int | None = None  # on the monotonic clock, in ms
    deliveries: int = 0
    priority: int = 0
    start: int = field(init=False, default=0)
    owned: bool = field(init=False, default=False)
    """Whether ``contents`` belongs to this run alone and may grow."""

    def __len__(self) -> int:
        return len(self.offsets) - self.start

    def page_out(self) -> None:
        """Release the contents: they are stored, and are read again when needed."""
        self.contents = PAGED_OUT

    def split(self, count: int) -> Run:
        """Remove the first ``count`` messages (fewer than all) and return them as a run."""
        start = self.start
        stop = start + count
        part = self.piece(slice(start, stop))
        self.start = stop
        self.size -= part.size
        return part

    def piece(self, where: slice) -> Run:
        """A new run of the messages at ``where``; this one stays as it is."""
        offsets = self.offsets[where]
        if self.contents is PAGED_OUT:
            contents = PAGED_OUT
            size = self.size * len(offsets) // max(1, len(self))
        else:
            contents = self.contents[where]
            size = sum(map(type(self).measure, contents))
        return type(self)(
            self.route,
            contents,
            offsets,
            size,
            channel_number=self.channel_number,
            persistent=self.persistent,
            expires=self.expires,
            deliveries=self.deliveries,
            priority=self.priority,
        )

    def pick(self, start: int, mask: bytes) -> Run:
        """A new run of the messages from ``start`` on whose byte in ``mask`` is not 0."""
        stop = start + len(mask)
        offsets = list(compress(self.offsets[start:stop], mask))
        if self.contents is not PAGED_OUT:
            contents = list(compress(self.contents[start:stop], mask))
            return self.with_contents(contents, offsets, type(self))
        picked = self.with_contents(PAGED_OUT, offsets, type(self))
        picked.size = self.size * len(offsets) // max(1, len(self))
        return picked

    def with_contents(self, contents: list[bytes], offsets: Sequence[int], kind: type[Run]) -> Run:
        """A run like this one with other messages, measured as ``kind`` does."""
        return kind(
            self.route,
            contents,
            offsets,
            sum(map(kind.measure, contents)),
            channel_number=self.channel_number,
            persistent=self.persistent,
            expires=self.expires,
            deliveries=self.deliveries,
            priority=self.priority,
        )

    def split_round_robin(self, parts: int) -> Iterator[Run]:
        """The messages split round-robin: with 3 parts, 0 3 6.. then 1 4 7.. then 2 5 8.."""
        start = self.start
        for part in range(min(parts, len(self))):
            yield self.piece(slice(start + part, None, parts))
