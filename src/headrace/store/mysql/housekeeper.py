"""The engine's own thread: heartbeat, retention, lanes that nobody reads.

Retention of a topic is done by the one node that holds its lease. Nothing that matters depends on
this thread: what it does not do today it does tomorrow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from headrace.errors import BrokerError
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql import retention
from headrace.store.mysql.catalog import CatalogTopic, TopicCatalog
from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.faults import Fault
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.nodes import HEARTBEAT_S, EngineNode
from headrace.store.mysql.pool import Pool
from headrace.store.mysql.stable_ids import Bounds

logger = logging.getLogger(__name__)

_LEASE: Final = "housekeeping."


class Housekeeper:
    """Started with the engine, stopped with it."""

    def __init__(
        self,
        pool: Pool,
        catalogue: TopicCatalog,
        bounds: Callable[[DbConnection, CatalogTopic], dict[Priority, Bounds]],
        node: EngineNode,
    ) -> None:
        self._pool = pool
        self._catalogue = catalogue
        self._bounds = bounds
        self._node = node
        self._counts = retention.ByteCounts()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="headrace-mysql-housekeeper", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        try:
            with self._pool.session() as session:
                self._node.leave(session)
        except (BrokerError, Fault) as error:
            logger.debug("could not say goodbye: %s", error)

    def _run(self) -> None:
        was_away = False
        while not self._stopped.wait(HEARTBEAT_S):
            try:
                self.round()
                was_away = False
            except (BrokerError, Fault) as error:
                if not was_away:  # once is enough: it may take hours
                    logger.warning("housekeeping of %s: %s", self._pool.place, error)
                was_away = True
            except Exception:
                logger.exception("housekeeping of %s failed", self._pool.place)

    def round(self) -> None:
        """One round over all topics. Who holds a connection waits for no second one: there may be
        only one."""
        topics = self._catalogue.all()
        with self._pool.session() as session:
            self._node.beat(session)
        for topic in topics:
            if self._stopped.is_set():
                return
            with self._pool.session() as session:
                self._keep(session, topic)

    def _keep(self, session: DbConnection, topic: CatalogTopic) -> None:
        if not self._node.leads(session, _LEASE + topic.name):
            return
        try:
            bounds = self._bounds(session, topic)
            group_rows.trim(session, topic.name)
            if topic.retention is not None or topic.partition_rows:
                retention.apply(session, topic, bounds, self._counts)
        except (BrokerError, Fault) as error:
            logger.info("housekeeping of topic %s: %s", topic.name, error)
