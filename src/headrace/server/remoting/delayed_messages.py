"""Delayed messages: they wait in hidden topics until they are due.

Levels have one queue each, ordered by due time as they come. Messages with a time of their own are
in one queue, and a heap in memory knows their due times; it is rebuilt at start. Release is one
step: the message enters its topic and leaves the hidden one, or neither.
"""

from __future__ import annotations

import heapq
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable

from headrace.core.clock import Timer, Timers
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BrokerError, MalformedError, NotFound
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.message_mapping import (
    OFFSET_BITS,
    OFFSET_MASK,
    REAL_PRIORITY,
    TopicRecord,
    each_entry,
    hide,
    partition_of,
    physical_offset,
    take_record,
    whole_number,
)
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.server.remoting.topics import RemotingTopics, Target
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import LEVELS, delay_seconds
from headrace.wire.remoting.names import SCHEDULE_TOPIC, TIMER_TOPIC

logger = logging.getLogger(__name__)

BATCH_BYTES = 1 << 18  # read in one step
RETRY_MS = 10
BATCH_TIMERS = 256  # released in one step of the loop
LONGEST_WAIT_MS = 60_000  # of one timer: the clock may be set meanwhile
_TRACK = Partition(Priority.MIDDLE, 0)


def _release(
    topics: RemotingTopics, number: int, entries: Iterable[tuple[int, int, bytes]]
) -> None:
    """Move entries of the hidden partition ``number`` to where they belong."""
    found = [(offset, _target(topics, number, offset, content)) for offset, _, content in entries]
    topics.release(number, found, keep_ids=True)


def _target(topics: RemotingTopics, number: int, offset: int, content: bytes) -> Target | None:
    """Where the message belongs, and what it looks like there; None if it belongs nowhere."""
    try:
        record = take_record(content)
        topic, track = topics.destination_of(record)
    except BrokerError as error:
        logger.warning("delayed message %d of partition %d dropped: %s", offset, number, error)
        return None
    return topic, track, record.with_properties(**{REAL_PRIORITY: None})


class DelayLevels:
    """Messages with a delay level, in one queue per level."""

    def __init__(self, topics: RemotingTopics, timers: Timers) -> None:
        self._topics = topics
        self._timers = timers
        self._armed: set[int] = set()  # levels with a timer

    def start(self) -> None:
        """Release what became due while the broker was down."""
        topic = self._topics.find(SCHEDULE_TOPIC)
        if topic is not None:
            for priority, index in topic.bounds():
                if priority is Priority.MIDDLE and index < len(LEVELS):
                    self._arm(index + 1, 1)

    def put(self, record: TopicRecord, topic: LogTopic, queue_id: int, level: int) -> AppendedRange:
        """Store the message until its delay is over."""
        level = min(level, len(LEVELS))
        waiting = hide(record, topic.name, queue_id, partition_of(topic, queue_id)[0])
        stored = self._topics.hide(SCHEDULE_TOPIC, len(LEVELS), _track(level), waiting)
        self._arm(level, delay_seconds(level) * 1000)
        return stored

    def _arm(self, level: int, after_ms: int) -> None:
        if level not in self._armed:
            self._armed.add(level)
            self._timers.after(max(after_ms, 1), lambda: self._due(level))

    def _due(self, level: int) -> None:
        """Release what is due, a batch at a time; again when the next message is due."""
        self._armed.discard(level)
        schedule = self._topics.find(SCHEDULE_TOPIC)
        if schedule is None:
            return
        track, wait_ms = _track(level), delay_seconds(level) * 1000
        first, end = schedule.bound(track)
        number = schedule.number_of(track)
        if number is None or first >= end:
            if self._topics.has_unread(schedule, track):
                self._arm(level, RETRY_MS)
            return
        # What was stored then or before is due.
        latest = self._timers.clock.expiry_ms() - wait_ms
        time = schedule.time_at(track, first)
        if time is not None and time > latest:
            self._arm(level, time - latest)
            return
        loaded, _ = schedule.load(track, first, end, BATCH_BYTES)
        due = [one for one in each_entry(loaded) if one[1] <= latest]
        if due:
            _release(self._topics, number, due)
        self._arm(level, 1)


class TimedMessages:
    """Messages that are to be delivered at a time of their own."""

    def __init__(self, topics: RemotingTopics, timers: Timers) -> None:
        self._topics = topics
        self._timers = timers
        self._hidden: LogTopic | None = None  # the topic that the heap is about
        self._heap: list[int] = []  # due time << OFFSET_BITS | offset
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def start(self) -> None:
        """Find the due times of what is waiting."""
        hidden = self._find()
        if hidden is not None:
            first, end = hidden.bound(_TRACK)
            self._load(hidden, first, end)

    def put(
        self, record: TopicRecord, topic: LogTopic, queue_id: int, due_ms: int
    ) -> AppendedRange:
        """Store the message until it is due."""
        record = record.with_properties(**{names.TIMER_OUT_MS: str(due_ms)})
        priority = partition_of(topic, queue_id)[0]
        waiting = hide(record, topic.name, queue_id, priority)
        stored = self._topics.hide(TIMER_TOPIC, 1, _TRACK, waiting)
        self._find()
        heapq.heappush(self._heap, due_ms << OFFSET_BITS | stored.first)
        self._arm()
        return stored

    def recall(self, handle: str, topic: str) -> tuple[str, int]:
        """Remove a waiting message of the topic; returns its id, and the position to wait for.

        MalformedError for what is no handle, NotFound when the message does not wait any more.
        """
        due, unique, physical = _take_handle(handle, topic)
        found = self._topics.find_message(physical)
        waits = found is not None and found.topic.name == TIMER_TOPIC
        if found is None or not waits or due <= self._now():
            raise NotFound("the message is not waiting: it was delivered or recalled before")
        given = found.record.properties
        if given.get(names.REAL_TOPIC) != topic or given.get(names.UNIQ_KEY) != unique:
            raise MalformedError("the recall handle belongs to another message")
        return unique, self._topics.release(found.number, [(found.offset, None)])

    def _now(self) -> int:
        return int(self._timers.clock.wall_seconds() * 1000)

    def _find(self) -> LogTopic | None:
        """The hidden topic. Due times of one that was deleted are forgotten."""
        hidden = self._topics.find(TIMER_TOPIC)
        if hidden is not self._hidden:
            self._hidden = hidden
            self._heap.clear()
        return hidden

    def _load(self, hidden: LogTopic, start: int, stop: int) -> None:
        """Step by step, so that others are served meanwhile."""
        loaded, following = hidden.load(_TRACK, start, stop, BATCH_BYTES)
        for offset, _, content in each_entry(loaded):
            heapq.heappush(self._heap, _due_time(content) << OFFSET_BITS | offset)
        self._arm()
        if following < stop:
            self._timers.after(1, lambda: self._load(hidden, following, stop))

    def _arm(self) -> None:
        if not self._heap:
            return
        wait = (self._heap[0] >> OFFSET_BITS) - self._now()
        self._arm_after(min(max(wait, 1), LONGEST_WAIT_MS))

    def _arm_after(self, wait_ms: int) -> None:
        due = self._timers.clock.now_ms() + wait_ms
        if self._timer is not None:
            if self._timer.due <= due:
                return
            self._timer.cancel()
        self._timer = self._timers.at(due, self._fire)

    def _fire(self) -> None:
        """Release what is due; each on its own, so that none waits for another."""
        self._timer = None
        hidden = self._find()
        if hidden is None:
            return
        now, end, heap = self._now(), hidden.bound(_TRACK).end, self._heap
        for _ in range(BATCH_TIMERS):
            if not heap or heap[0] >> OFFSET_BITS > now:
                break
            if heap[0] & OFFSET_MASK >= end:
                self._arm_after(RETRY_MS)  # not on disk yet, so it cannot be read
                return
            self._release_at(hidden, heapq.heappop(heap) & OFFSET_MASK, now)
        self._arm()

    def _release_at(self, hidden: LogTopic, offset: int, now: int) -> None:
        loaded, _ = hidden.load(_TRACK, offset, offset + 1, 1)
        number = hidden.number_of(_TRACK)
        assert number is not None, "it has messages"
        entries = [
            one for one in each_entry(loaded) if one[0] == offset and _due_time(one[2]) <= now
        ]
        if entries:  # otherwise it was recalled
            _release(self._topics, number, entries)


def _due_time(content: bytes) -> int:
    """When an entry of the timer topic is due; at once if it does not say: it is dropped then."""
    try:
        return whole_number(take_record(content).properties.get(names.TIMER_OUT_MS)) or 0
    except BrokerError:
        return 0


def _track(level: int) -> Partition:
    return Partition(Priority.MIDDLE, level - 1)


def recall_handle(topic: str, broker: str, due_ms: int, unique: str, stored: AppendedRange) -> str:
    """What a producer needs to recall a message. The first five words are those of Apache's."""
    physical = physical_offset(stored.number, stored.first)
    text = f"v1 {topic} {broker} {due_ms} {unique} {physical}"
    return urlsafe_b64encode(text.encode()).decode("ascii")


def _take_handle(handle: str, topic: str) -> tuple[int, str, int]:
    """Due time, id and physical offset."""
    try:
        words = urlsafe_b64decode(handle).decode().split(" ")
    except ValueError:
        words = []
    due, physical = (whole_number(words[at] if len(words) > 5 else None) for at in (3, -1))
    if words[:1] != ["v1"] or due is None or physical is None:
        raise MalformedError("the recall handle is not one of this broker")
    if words[1] != topic:
        raise MalformedError(f"the recall handle is of topic '{words[1]:.127}', not '{topic}'")
    return due, " ".join(words[4:-1]), physical
