"""Delayed messages: one hidden queue per delay level, so that each is ordered by due time.

Release is one step: the message enters its topic and leaves the hidden one, or neither.
"""

from __future__ import annotations

from headrace.core.clock import Timers
from headrace.core.storage import Storage
from headrace.core.topics.log_topic import LogTopic
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    encode_record,
    hide,
    partition_of,
    reveal,
    take_record,
)
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.server.remoting.topics import RemotingTopics
from headrace.store.topics.reads import LoadedEntries
from headrace.wire.remoting.codes import LEVELS, delay_seconds
from headrace.wire.remoting.names import SCHEDULE_TOPIC

BATCH_BYTES = 1 << 20
RETRY_MS = 10


class DelayedMessages:
    """Stores delayed messages and releases them when they are due."""

    def __init__(self, topics: RemotingTopics, storage: Storage, timers: Timers) -> None:
        self._topics = topics
        self._storage = storage
        self._timers = timers
        self._armed: set[int] = set()  # levels with a timer

    def start(self) -> None:
        """Release what became due while the broker was down."""
        topic = self._topics.find(SCHEDULE_TOPIC)
        if topic is not None:
            for track in topic.bounds():
                self._release(track[1] + 1)

    def put(self, record: TopicRecord, topic: LogTopic, queue_id: int, level: int) -> AppendedRange:
        """Store the message until its delay is over."""
        level = min(level, len(LEVELS))
        waiting = hide(record, topic.name, queue_id, partition_of(topic, queue_id)[0])
        schedule = self._topics.ensure(SCHEDULE_TOPIC, len(LEVELS))
        track = _track(level)
        offset, position = schedule.append_to(track, [encode_record(waiting)])
        number = schedule.number_of(track)
        assert number is not None, "something was appended"
        self._arm(level, delay_seconds(level) * 1000)
        return AppendedRange(number, offset, position)

    def _arm(self, level: int, after_ms: int) -> None:
        if level not in self._armed:
            self._armed.add(level)
            self._timers.after(max(after_ms, 1), lambda: self._due(level))

    def _due(self, level: int) -> None:
        self._armed.discard(level)
        self._release(level)

    def _release(self, level: int) -> None:
        """Release what is due, a batch at a time; again when the next message is due."""
        schedule = self._topics.find(SCHEDULE_TOPIC)
        if schedule is None:
            return
        track, wait_ms = _track(level), delay_seconds(level) * 1000
        first, end = schedule.bound(track)
        number = schedule.number_of(track)
        log = self._storage.log
        if number is None or log is None:
            return
        if first >= end:
            if log.reads.next_offset(number) > end:
                self._arm(level, RETRY_MS)  # not on disk yet, so it cannot be read
            return
        # What was stored then or before is due.
        latest = self._timers.clock.expiry_ms() - wait_ms
        time = schedule.time_at(track, first)
        if time is not None and time > latest:
            self._arm(level, time - latest)
            return
        loaded, _ = schedule.load(track, first, end, BATCH_BYTES)
        for one in loaded:
            if one.time <= latest:
                self._release_entries(number, one)
        self._arm(level, 1)

    def _release_entries(self, number: int, loaded: LoadedEntries) -> None:
        storage = self._storage
        assert storage.log is not None, "it was read from there"
        due = [self._target(take_record(content)) for content in loaded.contents]
        with storage.atomic():
            for topic, track, content in due:
                topic.append_to(track, [content])
            storage.log.settle(number, list(loaded.offsets))

    def _target(self, record: TopicRecord) -> tuple[LogTopic, Partition, bytes]:
        """Where the message belongs, and what it looks like there."""
        topic, track = self._topics.destination_of(record)
        released = reveal(record).with_properties(DELAY=None)
        return topic, track, encode_record(released)


def _track(level: int) -> Partition:
    return Partition(Priority.MIDDLE, level - 1)
