"""The three lanes of a topic, and how a batch is filled from them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from headrace.errors import BadTopicValue

_LABELS = ("middle", "high", "low")


class Priority(enum.IntEnum):
    """In the order of RocketMQ queue ids: middle is the lane that plain topics have."""

    MIDDLE = 0
    HIGH = 1
    LOW = 2

    @property
    def label(self) -> str:
        return _LABELS[self]


BY_URGENCY = (Priority.HIGH, Priority.MIDDLE, Priority.LOW)
_LANES: Mapping[str, Priority] = {lane.label: lane for lane in Priority}


def lane_named(priority: str) -> Priority:
    """The lane of a priority, or BadTopicValue."""
    lane = _LANES.get(priority) if isinstance(priority, str) else None
    if lane is None:
        raise BadTopicValue(f"priority {priority!r} is unknown: low, middle or high")
    return lane


def shares(waiting: Mapping[Priority, int], room: int, min_share: int = 0) -> dict[Priority, int]:
    """How many messages of each lane fill ``room``: high, then middle, then low.

    ``min_share`` is the percentage of the room that each lower lane gets when it has messages
    waiting, so that a flood of high ones does not starve it.
    """
    floor = room * min_share // 100
    taken = dict.fromkeys(BY_URGENCY, 0)
    if floor:
        for lane in reversed(BY_URGENCY):
            taken[lane] = min(waiting.get(lane, 0), floor, room - sum(taken.values()))
    left = room - sum(taken.values())
    for lane in BY_URGENCY:
        more = min(waiting.get(lane, 0) - taken[lane], left)
        taken[lane] += more
        left -= more
    return taken
