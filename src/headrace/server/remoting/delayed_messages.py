"""Messages that wait: one hidden queue per delay level, so that each is in the order of its time.

Release is one step: the message enters its topic and leaves the hidden one, or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Track
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    encode_record,
    hidden,
    revealed,
    take_record,
    track_of,
)
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.store.topics.reads import LoadedEntries
from headrace.wire.remoting.codes import LEVELS, delay_seconds
from headrace.wire.remoting.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from headrace.core.topics.log_topic import LogTopic
    from headrace.server.remoting.state import RemotingState

BATCH_BYTES = 1 << 20
LOOK_AGAIN_MS = 10


class DelayedMessages:
    """Puts messages off, and lets them go."""

    def __init__(self, hub: RemotingState) -> None:
        self._hub = hub
        self._armed: set[int] = set()  # levels with a timer

    def start(self) -> None:
        """After a restart: go on with what waits."""
        topic = self._hub.find_topic(SCHEDULE_TOPIC)
        if topic is not None:
            for track in topic.bounds():
                self._release(track[1] + 1)

    def put(self, record: TopicRecord, topic: LogTopic, queue_id: int, level: int) -> AppendedRange:
        """Keep the message for its time."""
        level = min(level, len(LEVELS))
        waiting = hidden(record, topic.name, queue_id, track_of(topic, queue_id)[0])
        schedule = self._hub.make_topic(SCHEDULE_TOPIC, len(LEVELS))
        track = _track(level)
        offset, position = schedule.append_to(track, [encode_record(waiting)])
        number = schedule.number_of(track)
        assert number is not None, "something was appended"
        self._arm(level, delay_seconds(level) * 1000)
        return AppendedRange(number, offset, position)

    def _arm(self, level: int, after_ms: int) -> None:
        if level not in self._armed:
            self._armed.add(level)
            self._hub.broker.timers.after(max(after_ms, 1), lambda: self._due(level))

    def _due(self, level: int) -> None:
        self._armed.discard(level)
        self._release(level)

    def _release(self, level: int) -> None:
        """Let go of what is due, a batch at a time; look again when the next one's time comes."""
        schedule = self._hub.find_topic(SCHEDULE_TOPIC)
        if schedule is None:
            return
        track, wait_ms = _track(level), delay_seconds(level) * 1000
        first, end = schedule.bound(track)
        number = schedule.number_of(track)
        journal = self._hub.broker.storage.journal
        if number is None or journal is None:
            return
        if first >= end:
            if journal.next_offset(number) > end:
                self._arm(level, LOOK_AGAIN_MS)  # not on disk yet, so it cannot be seen
            return
        # What was stored then or before is due.
        latest = self._hub.broker.clock.expiry_ms() - wait_ms
        time = schedule.time_at(track, first)
        if time is not None and time > latest:
            self._arm(level, time - latest)
            return
        loaded, _ = schedule.load(track, first, end, BATCH_BYTES)
        for one in loaded:
            if one.time <= latest:
                self._let_go(number, one)
        self._arm(level, 1)

    def _let_go(self, number: int, loaded: LoadedEntries) -> None:
        storage = self._hub.broker.storage
        assert storage.journal is not None, "it was read from there"
        due = [self._target(take_record(content)) for content in loaded.contents]
        with storage.atomic():
            for topic, track, content in due:
                topic.append_to(track, [content])
            storage.journal.settle(number, list(loaded.offsets))

    def _target(self, record: TopicRecord) -> tuple[LogTopic, Track, bytes]:
        """Where the message belongs, and what it looks like there."""
        topic, track = self._hub.real_place(record)
        released = revealed(record).with_properties(DELAY=None)
        return topic, track, encode_record(released)


def _track(level: int) -> Track:
    return Priority.MIDDLE, level - 1
