"""Where RocketMQ clients see messages: queue ids for lanes and partitions, 64-bit offsets.

Queue ids of a topic with q queues: middle 0 .. q-1, high q .. 2q-1, low 2q .. 3q-1. The physical
offset of a message is the number of its track in the journal << 40, plus its offset there.
"""

from __future__ import annotations

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Track

OFFSET_BITS = 40
_OFFSET_MASK = (1 << OFFSET_BITS) - 1


def track_of(topic: LogTopic, queue_id: int) -> Track:
    """The track behind a queue id; BadTopicValue when the topic has none of that id."""
    queues = topic.queues
    if not 0 <= queue_id < queues * len(Priority):
        raise BadTopicValue(
            f"topic '{topic.name}' has no queue {queue_id}: they are 0 to {read_queues(topic) - 1}"
        )
    return Priority(queue_id // queues), queue_id % queues


def queue_id_of(topic: LogTopic, track: Track) -> int:
    return int(track[0]) * topic.queues + track[1]


def read_queues(topic: LogTopic) -> int:
    """Queues to read from: they grow with the lanes that are in use."""
    lanes = [int(track[0]) for track in topic.bounds()]
    return topic.queues * (max(lanes, default=0) + 1)


def physical_offset(number: int, offset: int) -> int:
    return number << OFFSET_BITS | offset


def take_physical(physical: int) -> tuple[int, int]:
    """The number of a track, and the offset in it."""
    return physical >> OFFSET_BITS, physical & _OFFSET_MASK
