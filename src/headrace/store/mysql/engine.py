"""The engine: topics in a MySQL or MariaDB database that any number of processes share."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping, Sequence

from headrace.errors import BadTopicValue, NoSuchTopic, StoreError
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql import single_consumer
from headrace.store.mysql.appends import PriorityAppender, RowWriter
from headrace.store.mysql.bodies import BodyReader
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.checks import (
    check_batch,
    check_delay,
    check_reader,
    checked_positions,
)
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.context import COMMITTED
from headrace.store.mysql.extras import Extras
from headrace.store.mysql.faults import Fault
from headrace.store.mysql.groups import claims, group_rows, offset_reset, retries
from headrace.store.mysql.groups import lag as progress
from headrace.store.mysql.message_rows import Values, queue_of, values_of
from headrace.store.mysql.url import MySqlSettings
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    Part,
    PriorityLag,
    StoredMessage,
    Taken,
    TopicInfo,
    TopicSpec,
)

logger = logging.getLogger(__name__)


class MySqlEngine(Extras):
    """See `TopicEngine` for the promises. All methods may be called from any thread."""

    name = "mysql"

    def __init__(self, url: str | MySqlSettings, *, lazily: bool = False) -> None:
        super().__init__(url, lazily=lazily)
        self._lock = threading.Lock()
        self._priorities: dict[tuple[str, Priority], PriorityAppender] = {}
        self._turns = itertools.count()

    # -- topics ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> TopicInfo:
        self._catalogue.create(spec)
        return self.describe(spec.name)

    def delete(self, topic: str) -> None:
        self._catalogue.delete(topic)
        with self._lock:
            self._priorities.clear()

    def describe(self, topic: str) -> TopicInfo:
        found = self._catalogue.look(topic)
        return self._on(topic, lambda session: self._info(session, found), repeatable=True)

    def topics(self) -> list[TopicInfo]:
        found = []
        for topic in self._catalogue.all():
            try:
                found.append(self.describe(topic.name))
            except NoSuchTopic:
                continue  # deleted in between
            except StoreError as error:
                logger.warning("topic '%s' is not listed: %s", topic.name, error)
        return found

    def uuids(self) -> dict[str, str]:
        return {topic.name: topic.uuid for topic in self._catalogue.all()}

    def _info(self, session: DbConnection, topic: CatalogTopic) -> TopicInfo:
        bounds = self._bounds(session, topic)
        parts = tuple(
            Part(
                priority,
                0,
                its.low,
                its.stable + 1,
                progress.time_after(session, topic.name, priority, its.low - 1, its.stable),
                progress.last_time(session, topic.name, priority, its),
            )
            for priority, its in sorted(bounds.items())
        )
        return TopicInfo(
            topic.name, topic.uuid, self.name, topic.queues, topic.retention, topic.created_at,
            parts,
        )  # fmt: skip

    # -- appending -------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        found = self._catalogue.get(topic)
        priorities: dict[Priority, list[int]] = {}
        rows = []
        for number, entry in enumerate(entries):
            rows.append(values_of(entry, self._queue(entry, found.queues), self.max_body))
            priorities.setdefault(entry.priority, []).append(number)
        ids = [0] * len(rows)
        for priority, numbers in priorities.items():
            given = self._append(found, priority, [rows[number] for number in numbers])
            for number, one in zip(numbers, given, strict=True):
                ids[number] = one
        return ids

    def _append(self, topic: CatalogTopic, priority: Priority, rows: Sequence[Values]) -> list[int]:
        try:
            return self._appender(topic, priority).append(rows)
        except Fault as fault:
            raise self._without_table(topic.name, fault) from None

    def _appender(self, topic: CatalogTopic, priority: Priority) -> PriorityAppender:
        key = (topic.uuid, priority)
        with self._lock:
            found = self._priorities.get(key)
            if found is None:
                writer = RowWriter(self._writers, topic, priority, self._catalogue.prepare())
                found = self._priorities[key] = PriorityAppender(writer, writer.max_bytes)
        return found

    def _queue(self, entry: Entry, queues: int) -> int:
        if queues == 1:
            return 0
        return next(self._turns) % queues if entry.key is None else queue_of(entry.key, queues)

    # -- reading ---------------------------------------------------------------------------------

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> Taken:
        return self._read(topic, reader, batch, ())

    def commit_and_read(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object], batch: int
    ) -> Taken:
        """commit() and read(), for a group in one transaction."""
        if reader.group is None:
            self.commit(topic, reader, claim)
            return self.read(topic, reader, batch)
        return self._read(topic, reader, batch, group_rows.parse(claim, reader))

    def _read(
        self, topic: str, reader: ConsumerSpec, batch: int, acks: Sequence[group_rows.Key]
    ) -> Taken:
        check_reader(reader)
        check_batch(batch)
        found = self._catalogue.get(topic)

        def work(session: DbConnection) -> Taken:
            bounds = self._bounds(session, found)
            bodies = BodyReader(self._sizes)
            if reader.group is None:
                return single_consumer.read(session, topic, reader, bounds, batch, bodies)
            return claims.read(session, topic, reader, bounds, batch, bodies, acks)

        return self._on(topic, work, unknown="what it handed out comes again after the lease")

    # -- settling --------------------------------------------------------------------------------

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        check_reader(reader)
        if not claim:
            return
        if reader.group is None:
            work = lambda session: single_consumer.commit(session, topic, reader, claim)  # noqa: E731
        else:
            keys = group_rows.parse(claim, reader)
            work = lambda session: group_rows.commit(session, topic, reader, keys)  # noqa: E731
        self._on(topic, work, unknown=COMMITTED)

    def nack(
        self,
        topic: str,
        reader: ConsumerSpec,
        claim: Sequence[object],
        ids: Sequence[tuple[Priority, int]] | None,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        check_reader(reader)
        if reader.group is None:
            raise BadTopicValue("only members of a group can nack; a consumer on its own reads "
                                "again what it does not commit")  # fmt: skip
        check_delay(delay_ms)
        keys = group_rows.parse(claim, reader)
        self._on(
            topic,
            lambda session: retries.nack(session, topic, reader, keys, ids, delay_ms, reason),
        )

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        check_reader(reader)
        if not claim:
            return
        if reader.group is None:
            self._on(topic, lambda session: single_consumer.renew(session, topic, reader, claim))
            return
        keys = group_rows.parse(claim, reader)
        self._on(topic, lambda session: group_rows.renew(session, topic, reader, keys))

    # -- positions -------------------------------------------------------------------------------

    def seek(
        self,
        topic: str,
        reader: ConsumerSpec,
        *,
        positions: Mapping[Priority, int] | None = None,
        time_ms: int | None = None,
    ) -> None:
        check_reader(reader, as_group=True)
        if (positions is None) == (time_ms is None):
            raise BadTopicValue("seek to positions or to a time, one of the two")
        found = self._catalogue.get(topic)

        def work(session: DbConnection) -> None:
            bounds = self._bounds(session, found)
            target = {
                priority: offset_reset.position_at(session, topic, priority, its, time_ms)
                for priority, its in bounds.items()
            } if time_ms is not None else checked_positions(positions or {}, bounds)  # fmt: skip
            group_rows.find_or_make_cursors(session, topic, reader, bounds)
            if reader.group is None:
                single_consumer.seek(session, topic, reader, target)
            else:
                offset_reset.seek_group(session, topic, reader, target)

        self._on(topic, work, repeatable=True)

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        check_reader(reader, as_group=True)
        found = self._catalogue.get(topic)
        return self._on(
            topic,
            lambda session: progress.lag(session, topic, reader, self._bounds(session, found)),
            repeatable=True,
        )

    def groups(self, topic: str) -> list[GroupInfo]:
        found = self._catalogue.get(topic)
        return self._on(
            topic,
            lambda session: progress.groups(session, topic, self._bounds(session, found)),
            repeatable=True,
        )

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        def work(session: DbConnection) -> None:
            with session.transaction():
                group_rows.delete_cursors(session, topic, reader)

        check_reader(reader, as_group=True)
        self._catalogue.get(topic)
        self._on(topic, work, repeatable=True)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        check_token(group, "group")
        self._catalogue.get(topic)
        return self._on(
            topic, lambda session: retries.dead(session, topic, group, limit), repeatable=True
        )
