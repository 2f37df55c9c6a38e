"""The three priorities of a topic, and how a batch is filled from them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from headrace.errors import BadTopicValue

_LABELS = ("middle", "high", "low")


class Priority(enum.IntEnum):
    """In the order of RocketMQ queue ids: middle is the priority that plain topics have."""

    MIDDLE = 0
    HIGH = 1
    LOW = 2

    @property
    def label(self) -> str:
        return _LABELS[self]


BY_URGENCY = (Priority.HIGH, Priority.MIDDLE, Priority.LOW)
_BY_LABEL: Mapping[str, Priority] = {priority.label: priority for priority in Priority}


def priority_named(label: str) -> Priority:
    """The priority with that label; BadTopicValue for any other."""
    priority = _BY_LABEL.get(label) if isinstance(label, str) else None
    if priority is None:
        raise BadTopicValue(f"unknown priority {label!r}: expected low, middle or high")
    return priority


def shares(waiting: Mapping[Priority, int], room: int, min_share: int = 0) -> dict[Priority, int]:
    """How many messages of each priority fill ``room``: high, then middle, then low.

    ``min_share`` is the percentage of the room that each lower priority gets when it has messages
    waiting, so that a flood of high ones does not starve it.
    """
    floor = room * min_share // 100
    taken = dict.fromkeys(BY_URGENCY, 0)
    if floor:
        for priority in reversed(BY_URGENCY):
            taken[priority] = min(waiting.get(priority, 0), floor, room - sum(taken.values()))
    left = room - sum(taken.values())
    for priority in BY_URGENCY:
        more = min(waiting.get(priority, 0) - taken[priority], left)
        taken[priority] += more
        left -= more
    return taken
