"""The progress of a consumer on its own: a position per partition, moved by its commits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.model.topics.partitions import Bounds, OffsetRange, Partition, fill


class ConsumerPositions:
    """A read changes nothing: until the commit the same messages come again."""

    def __init__(self, epoch: int = 0) -> None:
        self.partitions: dict[Partition, int] = {}  # the next offset to read
        self.epoch = epoch  # raised by every seek: commits from before it do not count

    def plan(self, room: int, min_share: int, bounds: Bounds) -> list[OffsetRange]:
        """What to read next: high, then middle, then low."""
        for partition, bound in bounds.items():
            self.partitions[partition] = max(self.partitions.get(partition, 0), bound.first)
        waiting = {
            priority: [
                OffsetRange(partition, self.partitions[partition], bounds[partition].end)
                for partition in sorted(bounds)
                if partition.priority == priority
                and self.partitions[partition] < bounds[partition].end
            ]
            for priority in BY_URGENCY
        }
        return fill(waiting, room, min_share)

    def skip(self, span: OffsetRange) -> None:
        """Nothing of the planned span can be read, ever."""
        self.partitions[span.partition] = max(self.partitions[span.partition], span.stop)

    def commit(
        self, epoch: int, stops: Iterable[tuple[Partition, int]], bounds: Bounds
    ) -> Sequence[Partition]:
        """Everything before the stops is done; never goes back."""
        stops = list(stops)
        known = all(
            partition in bounds and 0 <= stop <= bounds[partition].end for partition, stop in stops
        )
        if epoch != self.epoch or not known:
            raise ClaimLost("the claim is invalid after a seek; read again")
        for partition, stop in stops:
            self.partitions[partition] = max(self.partitions.get(partition, 0), stop)
        return [partition for partition, _ in stops]

    def seek(self, positions: Mapping[Partition, int]) -> None:
        self.partitions.update(positions)
        self.epoch += 1
