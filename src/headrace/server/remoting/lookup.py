"""One message by its physical offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.core.topics.log_topic import LogTopic
from headrace.model.topics.partitions import Track
from headrace.server.remoting.message_mapping import TopicRecord, take_record
from headrace.server.remoting.places import take_physical

if TYPE_CHECKING:
    from headrace.server.remoting.state import RemotingState


class FoundMessage(NamedTuple):
    topic: LogTopic
    track: Track
    place: tuple[int, int]  # number in the journal, offset
    time: int
    record: TopicRecord


def find_message(hub: RemotingState, physical: int) -> FoundMessage | None:
    """The message, or None when it is not there (any more)."""
    number, offset = take_physical(physical)
    known = hub.topic_of_number(number)
    if known is None or physical < 0:
        return None
    topic, track = known
    loaded, _ = topic.load(track, offset, offset + 1, 1)
    for one in loaded:
        for at, content in zip(one.offsets, one.contents, strict=True):
            if at == offset:
                return FoundMessage(topic, track, (number, offset), one.time, take_record(content))
    return None
