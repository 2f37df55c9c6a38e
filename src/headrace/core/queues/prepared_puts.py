"""Very many messages for one queue, prepared over several loop turns, taken in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.core.queues.paging import QueuePaging
from headrace.model.message import PublishedRun, Run
from headrace.wire.amqp.properties import priority as priority_of

RESIDENT_LIMIT = 8 << 20  # bytes of one queue's messages in memory; the rest is paged out


def by_priority(
    contents: list[bytes], highest: int | None
) -> Iterable[tuple[int, list[bytes], Sequence[int]]]:
    """(priority, contents, their indices) each; ``highest`` None: no priorities."""
    if highest is None:
        return [(0, contents, range(len(contents)))]
    found: dict[int, list[int]] = {}
    for index, content in enumerate(contents):
        found.setdefault(min(priority_of(content), highest), []).append(index)
    return [(one, [contents[i] for i in indices], indices) for one, indices in found.items()]


def shifted(indices: Sequence[int], first: int) -> Sequence[int]:
    if isinstance(indices, range):
        return range(first, first + len(indices))
    return [first + index for index in indices]


@dataclass(slots=True, eq=False, repr=False)
class PreparedPuts:
    """Messages in their order, paged out. Offsets and times of expiry count from 0."""

    new_paging: Callable[[], QueuePaging]
    run_type: type[Run]
    level: int  # of durability
    highest: int | None  # priority
    shorter_ttl: Callable[[int | None], int | None]
    paged: dict[int, QueuePaging] = field(default_factory=dict)  # by priority
    count: int = 0
    is_expiring: bool = False

    def add(self, batch: PublishedRun) -> int:
        """Add messages at the end; returns the offset of the first."""
        first, contents = self.count, batch.contents
        self.count += len(contents)
        expires = self.shorter_ttl(batch.ttl_ms)
        self.is_expiring = self.is_expiring or expires is not None
        for priority, members, indices in by_priority(contents, self.highest):
            run = self.run_type(
                batch.route,
                members,
                shifted(indices, first),
                sum(map(self.run_type.measure, members)),
                channel_number=batch.channel_number,
                persistent=batch.persistent and self.level > 0,
                expires=expires,
                priority=priority,
            )
            paged = self.paged.get(priority)
            if paged is None:
                paged = self.paged[priority] = self.new_paging()
            paged.push(run)
        return first

    def discard(self) -> None:
        """They are not published: free their place in paging files."""
        for paged in self.paged.values():
            paged.clear()
