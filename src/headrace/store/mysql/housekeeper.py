"""The engine's own thread: heartbeat, retention, priorities without readers.

Retention of a topic is done by the one node that holds its lease. Nothing that matters depends on
this thread: what it does not do today it does tomorrow.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from typing import Final

from headrace.errors import BrokerError
from headrace.store.mysql import retention
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.context import MySqlContext
from headrace.store.mysql.groups import group_rows
from headrace.store.mysql.schema import release_leases, take_lease
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault

logger = logging.getLogger(__name__)

_LEASE: Final = "housekeeping."


class Housekeeper:
    """Started with the engine, stopped with it."""

    def __init__(self, context: MySqlContext) -> None:
        self._context = context
        self.node = EngineNode()
        self._counts = retention.ByteCounts()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="headrace-mysql-housekeeper", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if not self._thread.is_alive():
            return  # never started: this process takes no part
        self._stopped.set()
        self._thread.join()
        try:
            with self._context.readers.session() as session:
                self.node.leave(session)
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
                    logger.warning("housekeeping of %s: %s", self._context.settings.place, error)
                was_away = True
            except Exception:
                logger.exception("housekeeping of %s failed", self._context.settings.place)

    def round(self) -> None:
        """One round over all topics. Who holds a connection waits for no second one: there may be
        only one."""
        topics = self._context.catalog.all()
        with self._context.readers.session() as session:
            self.node.beat(session)
        for topic in topics:
            if self._stopped.is_set():
                return
            with self._context.readers.session() as session:
                self._keep(session, topic)

    def _keep(self, session: DbConnection, topic: CatalogTopic) -> None:
        if not take_lease(session, _LEASE + topic.name, self.node.id):
            return
        try:
            bounds = self._context.readable(session, topic)
            group_rows.trim(session, topic.name)
            group_rows.keep_offsets(session, topic.name)
            if topic.retention is not None or topic.partition_rows:
                retention.apply(session, topic, bounds, self._counts)
        except (BrokerError, Fault) as error:
            logger.info("housekeeping of topic %s: %s", topic.name, error)


HEARTBEAT_S: Final = 3.0  # a lease is three of them and a little
_FORGET_MS: Final = 24 * 3_600_000


class EngineNode:
    """This process."""

    def __init__(self) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"[:255]

    def beat(self, session: DbConnection) -> None:
        session.run(
            "INSERT INTO `msg_node` (node_id,address,epoch,heartbeat_ms) "
            f"VALUES (%s,%s,1,{NOW}) ON DUPLICATE KEY UPDATE heartbeat_ms=VALUES(heartbeat_ms)",
            (self.id, socket.gethostname()),
        )
        session.run(f"DELETE FROM `msg_node` WHERE heartbeat_ms<{NOW}-{_FORGET_MS}")

    def leave(self, session: DbConnection) -> None:
        session.run("DELETE FROM `msg_node` WHERE node_id=%s", (self.id,))
        release_leases(session, self.id)
