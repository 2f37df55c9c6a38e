"""What all parts of the engine share: connection pools, the catalog, stable ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from headrace.errors import BadTopicValue, BrokerError, NoSuchTopic, StoreError
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.names import check_token
from headrace.store.mysql.catalog import CatalogTopic, TopicCatalog
from headrace.store.mysql.message_rows import BodySizes
from headrace.store.mysql.stable_ids import Bounds, Fencer, StableIds, TopicBounds
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.sql.pool import HostList, Pool
from headrace.store.sql.url import MySqlSettings, parse_url
from headrace.store.topics.types import EARLIEST, LATEST, ConsumerSpec

T = TypeVar("T")
MAX_BODY: Final = (16 << 20) - 1  # of a MEDIUMBLOB
COMMITTED: Final = (
    "the commit may have been done: if committing again says that the claim is void, it was"
)
HANDED_OUT: Final = "what it handed out comes again after the lease"
MAX_BATCH: Final = 100_000
MAX_LEASE_MS: Final = 366 * 24 * 3_600_000
MAX_DELAY_MS: Final = 30 * 24 * 3_600_000
_DDL_S: Final = 3600  # an ALTER of a large table takes its time


class MySqlContext:
    """Given to every part of the engine. May be used from any thread."""

    def __init__(self, url: str | MySqlSettings, *, lazily: bool = False) -> None:
        """EngineUnavailable when there is no server; not yet, if ``lazily``."""
        self.settings = settings = parse_url(url) if isinstance(url, str) else url
        self.hosts = hosts = HostList(settings)
        self.readers = Pool(settings, settings.readers, hosts=hosts)
        self.writers = Pool(settings, settings.writers, hosts=hosts)
        self.fencing = Pool(settings, 1, lock_wait_s=1, hosts=hosts)
        self._ddl = Pool(replace(settings, timeout=_DDL_S), 1, hosts=hosts)
        self.catalog = TopicCatalog(self.readers, self._ddl, lazily=lazily)
        self._fencer = Fencer(self.fencing, settings.grace_ms / 1000)
        self._stable_ids = StableIds(self._fencer)
        self.body_sizes = BodySizes()

    @property
    def max_body(self) -> int:
        """Known for sure when the server was reached."""
        packet = self.catalog.packet
        return MAX_BODY if packet is None else min(MAX_BODY, (packet - (64 << 10)) // 2)

    def close(self) -> None:
        self._fencer.close()
        for pool in (self.readers, self.writers, self.fencing, self._ddl):
            pool.close()

    def readable(self, session: DbConnection, topic: CatalogTopic) -> dict[Priority, Bounds]:
        bounds = self._stable_ids.advance(session, topic)
        if len(bounds) < len(BY_URGENCY):
            raise self._gone(topic.name)
        return bounds

    def complete(
        self, session: DbConnection, topic: CatalogTopic, patience_s: float
    ) -> tuple[dict[Priority, Bounds], str]:
        """With everything that is committed now; the text says what keeps some of it back."""
        bounds, gap = self._stable_ids.complete(session, topic, patience_s)
        if len(bounds) < len(BY_URGENCY):
            raise self._gone(topic.name)
        return bounds, gap

    def run(
        self,
        topic: str,
        work: Callable[[DbConnection], T],
        *,
        unknown: str = "it may have been done",
        repeatable: bool = False,
    ) -> T:
        """Do it in a session; a table that is missing means that the topic is."""
        self.catalog.check(topic)  # before anything is sent
        try:
            return self.readers.call(work, unknown=unknown, repeatable=repeatable)
        except Fault as fault:
            raise self.missing_table(topic, fault) from None

    def read(
        self,
        topic: str,
        work: Callable[[DbConnection, TopicBounds], T],
        *,
        unknown: str = "it may have been done",
        repeatable: bool = True,
    ) -> T:
        """The same, with what may be read of the topic."""
        found = self.catalog.get(topic)
        return self.run(
            topic,
            lambda session: work(session, self.readable(session, found)),
            unknown=unknown,
            repeatable=repeatable,
        )

    def _gone(self, topic: str) -> NoSuchTopic:
        return NoSuchTopic(f"there is no topic {topic!r} in {self.settings.place}")

    def missing_table(self, topic: str, fault: Fault) -> BrokerError:
        """A table is missing: the topic was deleted, or the table was dropped by hand."""
        self.catalog.forget(topic)
        try:
            self.catalog.load(topic)
        except BrokerError as error:
            return error
        return StoreError(
            f"topic {topic!r} in {self.settings.place} is damaged: a table was dropped: "
            f"it: {fault}; nothing was done. Bring the table back, or delete the topic"
        )


# -- arguments of callers: BadTopicValue before anything is sent -----------------------------


def check_batch(batch: int) -> None:
    if not 1 <= batch <= MAX_BATCH:
        raise BadTopicValue(f"a batch has 1 to {MAX_BATCH:,} messages, not {batch}")


def check_delay(delay_ms: int) -> None:
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise BadTopicValue(f"a delay is from 0 to {MAX_DELAY_MS} ms, not {delay_ms}")


def check_reader(reader: ConsumerSpec, *, as_group: bool = False) -> None:
    """BadTopicValue for what no reader can be. A group needs no token to be asked about."""
    if reader.token or reader.group is None or not as_group:
        check_token(reader.token)
    if reader.group is not None:
        check_token(reader.group, "group")
    if reader.start not in (EARLIEST, LATEST):
        raise BadTopicValue(f"start {reader.start!r} is unknown: earliest or latest")
    if reader.lease_ms < 1 or reader.max_attempts < 1 or not 0 <= reader.min_share <= 50:
        raise BadTopicValue("a lease and the number of attempts are from 1 on, min_share 0 to 50")
    if reader.lease_ms > MAX_LEASE_MS:
        raise BadTopicValue(f"a lease is up to {MAX_LEASE_MS} ms, not {reader.lease_ms}")
