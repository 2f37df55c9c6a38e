"""Groups of RocketMQ clients, who divide the queues among themselves, shown like other groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.core.topics.log_topic import LogTopic
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.partitions import Partition
from headrace.store.topics.types import GroupInfo, PriorityLag

MembersOf = Callable[[str], Sequence[str]]


def groups_of(topic: LogTopic, members_of: MembersOf) -> list[GroupInfo]:
    """All that have said how far they are, with the members that are there now."""
    return [
        GroupInfo(group, "", tuple(members_of(group)), lag_of(topic, offsets))
        for group, offsets in sorted(topic.assigned.groups().items())
    ]


def lag_of(topic: LogTopic, offsets: Mapping[Partition, int]) -> tuple[PriorityLag, ...]:
    """One per priority. A queue without an offset counts from its first message, as a new group
    that consumes everything does."""
    return tuple(_priority_lag(topic, priority, offsets) for priority in BY_URGENCY)


def _priority_lag(
    topic: LogTopic, priority: Priority, offsets: Mapping[Partition, int]
) -> PriorityLag:
    position = end = 0
    times: list[int] = []
    for partition, bound in topic.bounds().items():
        if partition.priority != priority:
            continue
        at = min(max(offsets.get(partition, 0), bound.first), bound.end)
        position += at
        end += bound.end
        time = topic.time_at(partition, at) if at < bound.end else None
        times += [time] if time is not None else []
    oldest = min(times, default=None)
    return PriorityLag(priority, position, end + 1, end - position, oldest_time=oldest)
