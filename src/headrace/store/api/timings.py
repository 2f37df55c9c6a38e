"""How long the journal takes: one entry per group commit, never per message."""

from __future__ import annotations

from headrace.model.histogram import Histogram


class CommitTimings:
    """Written on the loop's thread only."""

    __slots__ = ("bytes", "commits", "confirm", "sync", "syncs", "write_seconds")

    def __init__(self) -> None:
        self.confirm = Histogram()  # from the first append of a commit until it is on disk
        self.sync = Histogram()  # the disk's own part of it
        self.commits = 0
        self.syncs = 0
        self.bytes = 0
        self.write_seconds = 0.0
