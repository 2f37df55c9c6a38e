"""What every part of the engine stands on: connections, topics found, priorities advanced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from headrace.errors import BrokerError, NoSuchTopic, StoreError
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql.bodies import BodySizes
from headrace.store.mysql.catalog import CatalogTopic, TopicCatalog
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.faults import Fault
from headrace.store.mysql.housekeeper import EngineNode, Housekeeper
from headrace.store.mysql.pool import Pool
from headrace.store.mysql.stable_ids import Bounds, Fencer, StableIds
from headrace.store.mysql.url import MySqlSettings, parse_url

T = TypeVar("T")
MAX_BODY: Final = (16 << 20) - 1  # of a MEDIUMBLOB
COMMITTED: Final = (
    "the commit may have been done: if committing again says that the claim is void, it was"
)
_DDL_S: Final = 3600  # an ALTER of a large table takes its time


class MySqlContext:
    """Pools, catalogue and the threads of the engine."""

    def __init__(self, url: str | MySqlSettings, *, lazily: bool = False) -> None:
        """EngineUnavailable when there is no server; not yet, if ``lazily``."""
        self.settings = settings = parse_url(url) if isinstance(url, str) else url
        self._readers = Pool(settings, settings.readers)
        self._writers = Pool(settings, settings.writers)
        self._fencing = Pool(settings, 1, lock_wait_s=1)
        self._ddl = Pool(replace(settings, timeout=_DDL_S), 1)
        self._catalogue = TopicCatalog(self._readers, self._ddl, settings.database, lazily=lazily)
        self._fencer = Fencer(self._fencing, settings.grace_ms / 1000)
        self._advancer = StableIds(self._fencer)
        self._sizes = BodySizes()
        self.node = EngineNode()
        self._housekeeper: Housekeeper | None = None
        if settings.housekeeping:
            self._housekeeper = Housekeeper(self._readers, self._catalogue, self._bounds, self.node)
            self._housekeeper.start()

    @property
    def max_body(self) -> int:
        """Known for sure when the server was reached."""
        packet = self._catalogue.packet
        return MAX_BODY if packet is None else min(MAX_BODY, (packet - (64 << 10)) // 2)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.place})"

    def close(self) -> None:
        if self._housekeeper is not None:
            self._housekeeper.close()
        self._fencer.close()
        for pool in (self._readers, self._writers, self._fencing, self._ddl):
            pool.close()

    # -- inside ----------------------------------------------------------------------------------

    def _bounds(self, session: DbConnection, topic: CatalogTopic) -> dict[Priority, Bounds]:
        bounds = self._advancer.advance(session, topic)
        if len(bounds) < len(BY_URGENCY):
            raise self._gone(topic.name)
        return bounds

    def _on(
        self,
        topic: str,
        work: Callable[[DbConnection], T],
        *,
        unknown: str = "it may have been done",
        repeatable: bool = False,
    ) -> T:
        """Do it in a session; a table that is missing means that the topic is."""
        self._catalogue.check(topic)  # before anything is sent
        try:
            return self._readers.call(work, unknown=unknown, repeatable=repeatable)
        except Fault as fault:
            raise self._without_table(topic, fault) from None

    def _gone(self, topic: str) -> NoSuchTopic:
        return NoSuchTopic(f"there is no topic {topic!r} in {self.settings.place}")

    def _without_table(self, topic: str, fault: Fault) -> BrokerError:
        """A table is missing: the topic was deleted, or somebody has dropped the table."""
        self._catalogue.forget(topic)
        try:
            self._catalogue.look(topic)
        except BrokerError as error:
            return error
        return StoreError(
            f"topic {topic!r} in {self.settings.place} is damaged, somebody has dropped a table of "
            f"it: {fault}; nothing was done. Bring the table back, or delete the topic"
        )
