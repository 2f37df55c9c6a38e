"""Half messages: they wait in a hidden topic until their producer commits or rolls back.

A commit is one step: the message enters its topic and leaves the hidden one, or neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.core.clock import Timers
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import BrokerError, NotFound
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    each_entry,
    hide,
    partition_of,
    reveal,
    take_record,
)
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.server.remoting.session import Session
from headrace.server.remoting.topics import FoundMessage, RemotingTopics, Target
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import TRANSACTION_MASK
from headrace.wire.remoting.headers.send import COMMIT, CheckTransaction, EndTransaction
from headrace.wire.remoting.message_ids import offset_id
from headrace.wire.remoting.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC

logger = logging.getLogger(__name__)

SCAN_MS = 5_000
IMMUNITY_MS = 6_000  # before the first check
AGAIN_MS = 30_000  # between two checks
MAX_CHECKS = 15
MAX_SCANNED = 1_000  # half messages read in one scan
_TRACK: Partition = Partition(Priority.MIDDLE, 0)
_BYTES = 1 << 20


class HalfMessages:
    """Stores half messages and checks the transactions that their producers leave open."""

    def __init__(
        self,
        topics: RemotingTopics,
        timers: Timers,
        find_producer: Callable[[str], Session | None],
    ) -> None:
        self._topics = topics
        self._timers = timers
        self._find_producer = find_producer
        self._checked: dict[int, tuple[int, int]] = {}  # offset: checks, time of the last
        self._scanning = False

    def start(self) -> None:
        """Go on with checks after a restart."""
        topic = self._topics.find(HALF_TOPIC)
        if topic is not None and self._has_some(topic):
            self._arm()

    def _arm(self) -> None:
        if not self._scanning:
            self._scanning = True
            self._timers.after(SCAN_MS, self._scan)

    def _has_some(self, topic: LogTopic) -> bool:
        """Whether anything waits, on disk or on its way there."""
        first, end = topic.bound(_TRACK)
        return first < end or self._topics.has_unread(topic, _TRACK)

    def put(self, record: TopicRecord, topic: LogTopic, queue_id: int) -> AppendedRange:
        """Store a half message."""
        half = hide(record, topic.name, queue_id, partition_of(topic, queue_id)[0])
        half = half._replace(sys_flag=record.sys_flag & ~TRANSACTION_MASK)
        self._arm()
        return self._topics.hide(HALF_TOPIC, 1, _TRACK, half)

    # -- commit and rollback ---------------------------------------------------------------------

    def end(self, decision: EndTransaction, check: Callable[[str, str], None]) -> int:
        """Commit or roll back; the position to wait for. ``check`` checks permissions."""
        found = self._topics.find_message(decision.commit_log_offset)
        if found is None or found.topic.name != HALF_TOPIC:
            raise NotFound(
                f"no half message at physical offset {decision.commit_log_offset}; it was "
                "committed or rolled back before"
            )
        group = found.record.properties.get(names.PRODUCER_GROUP)
        wrong = group != decision.producer_group
        if wrong or found.offset != decision.tran_state_table_offset:
            raise NotFound(
                f"the half message at physical offset {decision.commit_log_offset} is not that of "
                f"producer group '{decision.producer_group:.120}'"
            )
        check("write", found.record.properties.get(names.REAL_TOPIC, ""))
        commit = decision.commit_or_rollback == COMMIT
        return self._settle(found, self._committed(found) if commit else None)

    def _committed(self, found: FoundMessage) -> Target:
        topic, track = self._topics.destination_of(found.record)
        whole = reveal(found.record).with_properties(
            **{names.TRANSACTION_PREPARED: None, names.TRANSACTION_CHECK_TIMES: None}
        )
        whole = whole._replace(sys_flag=found.record.sys_flag | COMMIT, prepared=found.physical)
        return topic, track, whole

    def _settle(self, found: FoundMessage, target: Target | None) -> int:
        """Remove the half message and append what it becomes to the target, if there is one."""
        self._checked.pop(found.offset, None)
        return self._topics.release(found.number, [(found.offset, target)])

    # -- checks -------------------------------------------------------------------------------

    def _scan(self) -> None:
        self._scanning = False
        topic = self._topics.find(HALF_TOPIC)
        if topic is None or not self._has_some(topic):
            return
        self._arm()
        self._check_all(topic)

    def _check_all(self, topic: LogTopic) -> None:
        now = int(self._timers.clock.wall_seconds() * 1000)
        first, end = topic.bound(_TRACK)
        loaded, _ = topic.load(_TRACK, first, min(end, first + MAX_SCANNED), _BYTES)
        number = topic.number_of(_TRACK) or 0
        for offset, time, content in each_entry(loaded):
            record = take_record(content)
            times, last = self._checked.get(offset, (0, time - AGAIN_MS))
            if now >= max(time + _immunity_ms(record), last + AGAIN_MS):
                self._check(FoundMessage(topic, _TRACK, number, offset, time, record), times, now)

    def _check(self, found: FoundMessage, times: int, now: int) -> None:
        try:
            self._topics.destination_of(found.record)
        except BrokerError as error:
            logger.warning("half message %d dropped: %s", found.offset, error)
            self._settle(found, None)
            return
        if times >= MAX_CHECKS:
            given_up = self._topics.ensure(CHECKED_TOO_OFTEN_TOPIC, 1)
            self._settle(found, (given_up, _TRACK, found.record))
            return
        group = found.record.properties.get(names.PRODUCER_GROUP, "")
        producer = self._find_producer(group)
        if producer is not None:  # else it is asked once it is connected
            self._checked[found.offset] = times + 1, now
            self._send_check(producer, found)

    def _send_check(self, session: Session, found: FoundMessage) -> None:
        topic, track = self._topics.destination_of(found.record)
        unique = found.record.properties.get(names.UNIQ_KEY)
        header = CheckTransaction(
            found.offset,
            found.physical,
            unique,
            unique,
            offset_id(session.store_host, found.physical),
            topic.name,
        )
        body = found._replace(topic=topic, track=track).encode(session.store_host)
        session.send_request(header.CODE, header.ext(), body, oneway=True)


def _immunity_ms(record: TopicRecord) -> int:
    text = record.properties.get(names.CHECK_IMMUNITY_TIME, "")
    wanted = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
    return wanted * 1000 or IMMUNITY_MS
