"""The progress of a consumer on its own: a position per track, moved by its commits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.model.topics.partitions import Bounds, OffsetRange, Track, fill


class ConsumerPositions:
    """A read changes nothing: until the commit the same messages come again."""

    def __init__(self, epoch: int = 0) -> None:
        self.tracks: dict[Track, int] = {}  # the next offset to read
        self.epoch = epoch  # raised by every seek: commits from before it do not count

    def plan(self, room: int, min_share: int, bounds: Bounds) -> list[OffsetRange]:
        """What to read next: high, then middle, then low."""
        for track, bound in bounds.items():
            self.tracks[track] = max(self.tracks.get(track, 0), bound.first)
        waiting = {
            lane: [
                OffsetRange(track, self.tracks[track], bounds[track].end)
                for track in sorted(bounds)
                if track[0] == lane and self.tracks[track] < bounds[track].end
            ]
            for lane in BY_URGENCY
        }
        return fill(waiting, room, min_share)

    def skip(self, span: OffsetRange) -> None:
        """Nothing of the planned span can be read, ever."""
        self.tracks[span.track] = max(self.tracks[span.track], span.stop)

    def commit(
        self, epoch: int, stops: Iterable[tuple[Track, int]], bounds: Bounds
    ) -> Sequence[Track]:
        """Everything before the stops is done; never goes back."""
        stops = list(stops)
        known = all(track in bounds and 0 <= stop <= bounds[track].end for track, stop in stops)
        if epoch != self.epoch or not known:
            raise ClaimLost("the claim is void: a seek came in between; read again")
        for track, stop in stops:
            self.tracks[track] = max(self.tracks.get(track, 0), stop)
        return [track for track, _ in stops]

    def seek(self, positions: Mapping[Track, int]) -> None:
        self.tracks.update(positions)
        self.epoch += 1
