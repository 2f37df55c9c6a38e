"""The engine: topics in a MySQL or MariaDB database that any number of processes share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from headrace.errors import BadTopicValue, NoSuchTopic, StoreError
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql.adopt import adopt
from headrace.store.mysql.appends import Appends
from headrace.store.mysql.bulk_reads import BulkRanges, EnginePins
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.context import MySqlContext, check_batch, check_delay, check_reader
from headrace.store.mysql.groups import group_rows, offset_reset, retries
from headrace.store.mysql.groups import lag as progress
from headrace.store.mysql.groups.group_reads import GroupReads
from headrace.store.mysql.groups.group_rows import ReaderRows
from headrace.store.mysql.groups.queue_leases import QueueLeases
from headrace.store.mysql.housekeeper import Housekeeper
from headrace.store.mysql.single_consumer import SingleReads
from headrace.store.mysql.stable_ids import Bounds
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.url import MySqlSettings
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    Part,
    PriorityLag,
    ReadResult,
    StoredMessage,
    TopicInfo,
    TopicSpec,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")


class MySqlEngine:
    """See `TopicEngine` for the promises. All methods may be called from any thread."""

    name = "mysql"

    def __init__(self, url: str | MySqlSettings, *, lazily: bool = False) -> None:
        """EngineUnavailable when there is no server; not yet, if ``lazily``."""
        self.context = context = MySqlContext(url, lazily=lazily)
        self.settings = context.settings
        self._appends = Appends(context)
        self._single, self._groups = SingleReads(context), GroupReads(context)
        self.bulk, self.pins = BulkRanges(context), EnginePins(context)
        self.queue_leases = QueueLeases(context)
        self.housekeeper = Housekeeper(context)
        if self.settings.housekeeping:
            self.housekeeper.start()

    @property
    def max_body(self) -> int:
        """Known for sure when the server was reached."""
        return self.context.max_body

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.place})"

    def close(self) -> None:
        self.housekeeper.close()
        self._groups.close()
        self.context.close()

    # -- topics ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> TopicInfo:
        self.context.catalog.create(spec)
        return self.describe(spec.name)

    def adopt(self, topic: str) -> dict[Priority, int]:
        """Make a topic out of tables of the original layout, in place; how many messages it has."""
        self.context.catalog.adopt(topic, adopt)
        return self.context.run(topic, partial(progress.counts, topic=topic), repeatable=True)

    def delete(self, topic: str) -> None:
        self.context.catalog.delete(topic)
        self._appends.clear()

    def describe(self, topic: str) -> TopicInfo:
        found = self.context.catalog.load(topic)
        return self.context.run(topic, lambda session: self._info(session, found), repeatable=True)

    def topics(self) -> list[TopicInfo]:
        found = []
        for topic in self.context.catalog.all():
            try:
                found.append(self.describe(topic.name))
            except NoSuchTopic:
                continue  # deleted in between
            except StoreError as error:
                logger.warning("topic '%s' is not listed: %s", topic.name, error)
        return found

    def uuids(self) -> dict[str, str]:
        return {topic.name: topic.uuid for topic in self.context.catalog.all()}

    def bounds(self, topic: str) -> dict[Priority, Bounds]:
        """What may be read now, for callers that read ranges of ids by themselves."""
        return self.context.read(topic, lambda session, bounds: dict(bounds))

    def _info(self, session: DbConnection, topic: CatalogTopic) -> TopicInfo:
        bounds = self.context.readable(session, topic)
        parts = tuple(
            Part(
                priority,
                0,
                its.low,
                its.stable + 1,
                *(
                    progress.time_after(
                        session, topic.name, priority, its.low - 1, its.stable, order
                    )
                    for order in ("", "DESC")
                ),
            )
            for priority, its in sorted(bounds.items())
        )
        return TopicInfo(
            topic.name, topic.uuid, self.name, topic.queues, topic.retention, topic.created_at,
            parts,
        )  # fmt: skip

    # -- messages --------------------------------------------------------------------------------

    def append(self, topic: str, entries: Sequence[Entry]) -> list[int]:
        try:
            return self._appends.append(topic, entries)
        finally:
            self._groups.appended(topic, {one.priority for one in entries})

    def release(self, topic: str, reader: ConsumerSpec) -> None:
        """The reader stops: what it has claimed ahead is there for others at once."""
        self._groups.release(topic, reader)

    def read(self, topic: str, reader: ConsumerSpec, batch: int) -> ReadResult:
        return self.commit_and_read(topic, reader, None, batch)

    def commit_and_read(
        self, topic: str, reader: ConsumerSpec, claim: Sequence[object] | None, batch: int
    ) -> ReadResult:
        """commit() and read(), for a group in one transaction."""
        reads = self._reads(reader)
        check_batch(batch)
        return reads.read(topic, reader, batch, claim)

    def _reads(self, reader: ConsumerSpec) -> SingleReads | GroupReads:
        check_reader(reader)
        return self._single if reader.group is None else self._groups

    def commit(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        reads = self._reads(reader)
        if claim:
            reads.commit(topic, reader, claim)

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
            raise BadTopicValue(
                "nack needs a group; a consumer without one reads again what it does not commit"
            )
        check_delay(delay_ms)
        keys = group_rows.parse(claim, reader)
        self.context.run(
            topic,
            lambda session: retries.nack(
                ReaderRows(session, topic, reader), keys, ids, delay_ms, reason
            ),
        )
        self._groups.made_due(topic, reader)

    def renew(self, topic: str, reader: ConsumerSpec, claim: Sequence[object]) -> None:
        reads = self._reads(reader)
        if claim:
            reads.renew(topic, reader, claim)

    # -- groups ----------------------------------------------------------------------------------

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
            raise BadTopicValue("pass either positions or a time to reset to, not both or neither")
        self.context.read(
            topic,
            lambda session, bounds: offset_reset.reset(
                ReaderRows(session, topic, reader), bounds, positions or {}, time_ms
            ),
        )

    def lag(self, topic: str, reader: ConsumerSpec) -> list[PriorityLag]:
        check_reader(reader, as_group=True)
        return self.context.read(
            topic,
            lambda session, bounds: progress.lag(ReaderRows(session, topic, reader), bounds),
        )

    def groups(self, topic: str) -> list[GroupInfo]:
        return self.context.read(
            topic, lambda session, bounds: progress.groups(session, topic, bounds)
        )

    def forget_group(self, topic: str, reader: ConsumerSpec) -> None:
        def work(session: DbConnection) -> None:
            with session.transaction():
                ReaderRows(session, topic, reader).delete_cursors()

        check_reader(reader, as_group=True)
        self.context.catalog.get(topic)
        self.context.run(topic, work, repeatable=True)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[tuple[StoredMessage, str]]:
        check_token(group, "group")
        self.context.catalog.get(topic)
        return self.context.run(
            topic, lambda session: retries.dead(session, topic, group, limit), repeatable=True
        )

    def on_writer(self, work: Callable[[DbConnection], T], *, repeatable: bool = False) -> T:
        """Work of batch writers, on a connection for appends."""
        unknown = "it may have been done"
        return self.context.writers.call(work, unknown=unknown, repeatable=repeatable)
