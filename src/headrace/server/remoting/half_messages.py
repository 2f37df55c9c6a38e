"""Transactional messages: half ones wait in a hidden topic until their producer decides.

A commit is one step: the message enters its topic and leaves the hidden one, or neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.topics.log_topic import LogTopic
from headrace.errors import NotFound
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Track
from headrace.server.remoting.message_mapping import (
    TopicRecord,
    encode_record,
    hidden,
    physical_offset,
    queue_id_of,
    revealed,
    sent_bytes,
    take_record,
    track_of,
)
from headrace.server.remoting.query import FoundMessage, find_message
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.wire.remoting import properties as names
from headrace.wire.remoting.codes import TRANSACTION_MASK, RequestCode
from headrace.wire.remoting.command import ONEWAY, Command
from headrace.wire.remoting.headers.send import COMMIT, CheckTransaction, EndTransaction
from headrace.wire.remoting.message_ids import host_bytes, offset_id
from headrace.wire.remoting.names import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session
    from headrace.server.remoting.state import RemotingState

SCAN_MS = 5_000
IMMUNITY_MS = 6_000  # before the first question
AGAIN_MS = 30_000  # between two questions
MAX_CHECKS = 15
MAX_SCANNED = 1_000  # half messages looked at in one scan
_TRACK: Track = (Priority.MIDDLE, 0)
_BYTES = 1 << 20


class HalfMessages:
    """Keeps half messages, and asks producers that do not decide."""

    def __init__(self, hub: RemotingState) -> None:
        self._hub = hub
        self._asked: dict[int, tuple[int, int]] = {}  # offset: how often, when last (wall)
        self._scanning = False

    def start(self) -> None:
        """After a restart: go on with what waits."""
        topic = self._hub.find_topic(HALF_TOPIC)
        if topic is not None and self._has_some(topic):
            self._arm()

    def _arm(self) -> None:
        if not self._scanning:
            self._scanning = True
            self._hub.broker.timers.after(SCAN_MS, self._scan)

    def _has_some(self, topic: LogTopic) -> bool:
        """Whether anything waits, on disk or on its way there."""
        first, end = topic.bound(_TRACK)
        number, journal = topic.number_of(_TRACK), self._hub.broker.storage.journal
        if number is None or journal is None:
            return False
        return first < end or journal.next_offset(number) > end

    def put(self, record: TopicRecord, topic: LogTopic, queue_id: int) -> AppendedRange:
        """Keep a half message until its producer decides."""
        half = hidden(record, topic.name, queue_id, track_of(topic, queue_id)[0])
        half = half.with_properties(DELAY=None)
        half = replace(half, sys_flag=record.sys_flag & ~TRANSACTION_MASK)
        topics = self._hub.make_topic(HALF_TOPIC, 1)
        offset, position = topics.append_to(_TRACK, [encode_record(half)])
        self._arm()
        return AppendedRange(topics.number_of(_TRACK) or 0, offset, position)

    # -- the end ---------------------------------------------------------------------------------

    def end(self, decision: EndTransaction, check: Callable[[str, str], None]) -> int:
        """Do what the producer has decided; the position to wait for. ``check`` asks for rights."""
        found = find_message(self._hub, decision.commit_log_offset)
        if found is None or found.topic.name != HALF_TOPIC:
            raise NotFound("no half message is there any more; it was decided before")
        group = found.record.properties.get(names.PRODUCER_GROUP)
        wrong = group != decision.producer_group
        if wrong or found.place[1] != decision.tran_state_table_offset:
            raise NotFound("the half message is another one, or of another producer group")
        check("write", found.record.properties.get(names.REAL_TOPIC, ""))
        commit = decision.commit_or_rollback == COMMIT
        return self._settle(found, self._committed(found) if commit else None)

    def _committed(self, found: FoundMessage) -> tuple[LogTopic, Track, TopicRecord]:
        topic, track = self._hub.real_place(found.record)
        whole = revealed(found.record).with_properties(
            **{names.TRANSACTION_PREPARED: None, names.TRANSACTION_CHECK_TIMES: None}
        )
        whole = replace(
            whole,
            sys_flag=found.record.sys_flag | COMMIT,
            prepared=physical_offset(*found.place),
        )
        return topic, track, whole

    def _settle(
        self, found: FoundMessage, target: tuple[LogTopic, Track, TopicRecord] | None
    ) -> int:
        """Take the half message away; when there is a target, what it becomes goes there."""
        storage = self._hub.broker.storage
        assert storage.journal is not None, "it was read from there"
        with storage.atomic():
            if target is not None:
                topic, track, record = target
                topic.append_to(track, [encode_record(record)])
            storage.journal.settle(found.place[0], [found.place[1]])
        self._asked.pop(found.place[1], None)
        return storage.position()

    # -- questions -------------------------------------------------------------------------------

    def _scan(self) -> None:
        self._scanning = False
        topic = self._hub.find_topic(HALF_TOPIC)
        if topic is None or not self._has_some(topic):
            return
        self._arm()
        self._ask_all(topic)

    def _ask_all(self, topic: LogTopic) -> None:
        now = self._hub.wall_ms()
        first, end = topic.bound(_TRACK)
        loaded, _ = topic.load(_TRACK, first, min(end, first + MAX_SCANNED), _BYTES)
        number = topic.number_of(_TRACK) or 0
        for one in loaded:
            for offset, content in zip(one.offsets, one.contents, strict=True):
                record = take_record(content)
                times, last = self._asked.get(offset, (0, one.time - AGAIN_MS))
                due = max(one.time + _immunity_ms(record), last + AGAIN_MS)
                if now >= due:
                    found = FoundMessage(topic, _TRACK, (number, offset), one.time, record)
                    self._ask(found, times, now)

    def _ask(self, found: FoundMessage, times: int, now: int) -> None:
        if times >= MAX_CHECKS:
            given_up = self._hub.make_topic(CHECKED_TOO_OFTEN_TOPIC, 1)
            self._settle(found, (given_up, _TRACK, found.record))
            return
        group = found.record.properties.get(names.PRODUCER_GROUP, "")
        producers = self._hub.members.producers.get(group)
        if producers:  # nobody there: ask when somebody comes
            self._asked[found.place[1]] = times + 1, now
            self._send_question(next(iter(producers)), found)

    def _send_question(self, session: Session, found: FoundMessage) -> None:
        hub = self._hub
        given = found.record.properties
        physical = physical_offset(*found.place)
        host = hub.store_host(session)
        topic, track = hub.real_place(found.record)
        name = topic.name
        unique = given.get(names.UNIQ_KEY)
        header = CheckTransaction(
            found.place[1], physical, unique, unique, offset_id(host, physical), name
        )
        body = sent_bytes(
            found.record,
            name.encode(),
            queue_id_of(topic, track),
            found.place[1],
            physical,
            found.time,
            host_bytes(host),
        )
        session.send_command(
            Command(
                RequestCode.CHECK_TRANSACTION_STATE,
                header.ext(),
                body,
                opaque=session.next_opaque(),
                flag=ONEWAY,
            )
        )


def _immunity_ms(record: TopicRecord) -> int:
    text = record.properties.get(names.CHECK_IMMUNITY_TIME, "")
    wanted = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
    return wanted * 1000 or IMMUNITY_MS
