"""Processes that share the database: who is alive, and which of them does the housekeeping.

All times are those of the database, so that clocks of machines do not matter.
"""

from __future__ import annotations

import os
import socket
import uuid
from typing import Final

from headrace.store.mysql.connection import DbConnection
from headrace.store.mysql.tables import NOW

HEARTBEAT_S: Final = 3.0
LEASE_MS: Final = 10_000  # three heartbeats and a little
_FORGET_MS: Final = 24 * 3_600_000


class EngineNode:
    """This process."""

    def __init__(self) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"[:255]
        self._epochs: dict[str, int] = {}

    def beat(self, session: DbConnection) -> None:
        session.run(
            "INSERT INTO `msg_node` (node_id,address,epoch,heartbeat_ms) "
            f"VALUES (%s,%s,1,{NOW}) ON DUPLICATE KEY UPDATE heartbeat_ms=VALUES(heartbeat_ms)",
            (self.id, socket.gethostname()),
        )
        session.run(f"DELETE FROM `msg_node` WHERE heartbeat_ms<{NOW}-{_FORGET_MS}")

    def leave(self, session: DbConnection) -> None:
        session.run("DELETE FROM `msg_node` WHERE node_id=%s", (self.id,))
        session.run(
            "UPDATE `msg_lease` SET owner=NULL, lease_until_ms=0 WHERE owner=%s", (self.id,)
        )

    def alive(self, session: DbConnection) -> list[str]:
        rows = session.rows(
            f"SELECT node_id FROM `msg_node` WHERE heartbeat_ms>={NOW}-%s ORDER BY 1", (LEASE_MS,)
        )
        return [str(node) for (node,) in rows]

    def leads(self, session: DbConnection, name: str) -> bool:
        """Whether this node holds the lease ``name``, which it takes if it is free."""
        session.run("INSERT IGNORE INTO `msg_lease` (name) VALUES (%s)", (name,))
        count = session.run(
            f"UPDATE `msg_lease` SET epoch=epoch+(owner IS NULL OR owner<>%s), owner=%s, "
            f"lease_until_ms={NOW}+%s "
            f"WHERE name=%s AND (owner IS NULL OR owner=%s OR lease_until_ms<{NOW})",
            (self.id, self.id, LEASE_MS, name, self.id),
        )
        return count == 1
