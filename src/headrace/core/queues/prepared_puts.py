"""Very many messages for one queue, prepared over several loop turns, taken in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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


class PreparedPuts:
    """Messages in their order, paged out. Offsets and times of expiry count from 0."""

    __slots__ = ("_highest", "_new_paging", "_run_type", "_shorter_ttl", "count", "is_expiring",
                 "level", "paged")  # fmt: skip

    def __init__(
        self,
        new_paging: Callable[[], QueuePaging],
        run_type: type[Run],
        level: int,
        highest: int | None,
        shorter_ttl: Callable[[int | None], int | None],
    ) -> None:
        self._new_paging = new_paging
        self._run_type = run_type
        self._highest = highest  # priority
        self._shorter_ttl = shorter_ttl
        self.level = level  # of durability
        self.paged: dict[int, QueuePaging] = {}  # by priority
        self.count = 0
        self.is_expiring = False

    def add(self, batch: PublishedRun) -> int:
        """Add messages at the end; returns the offset of the first."""
        first, contents = self.count, batch.contents
        self.count += len(contents)
        expires = self._shorter_ttl(batch.ttl_ms)
        self.is_expiring = self.is_expiring or expires is not None
        for priority, members, indices in by_priority(contents, self._highest):
            run = self._run_type(
                batch.route,
                members,
                shifted(indices, first),
                sum(map(self._run_type.measure, members)),
                channel_number=batch.channel_number,
                persistent=batch.persistent and self.level > 0,
                expires=expires,
                priority=priority,
            )
            paged = self.paged.get(priority)
            if paged is None:
                paged = self.paged[priority] = self._new_paging()
            paged.push(run)
        return first

    def discard(self) -> None:
        """They are not published: free their place in paging files."""
        for paged in self.paged.values():
            paged.clear()
