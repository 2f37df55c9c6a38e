"""Leases in rows of `msg_lease`: work that one process of all does at a time, on any cluster.

A named lock of the server (GET_LOCK) is known to one node of a cluster only; a row is certified.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from headrace.errors import BrokerError, EngineUnavailable
from headrace.retry import RetryPolicy
from headrace.store.mysql import tables
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.sql.pool import Pool

LEASE_MS: Final = 10_000
_SCHEMA: Final = "schema"
_TURN: Final = RetryPolicy(deadline_s=20, first_pause_s=0.01, max_pause_s=0.25)


def take_lease(session: DbConnection, name: str, owner: str) -> bool:
    """Whether ``owner`` holds the lease, which it takes if it is free or over."""
    session.run("INSERT IGNORE INTO `msg_lease` (name) VALUES (%s)", (name,))
    count = session.run(
        "UPDATE `msg_lease` SET epoch=epoch+(owner IS NULL OR owner<>%s), owner=%s, "
        f"lease_until_ms={NOW}+%s "
        f"WHERE name=%s AND (owner IS NULL OR owner=%s OR lease_until_ms<{NOW})",
        (owner, owner, LEASE_MS, name, owner),
    )
    return count == 1


def release_leases(session: DbConnection, owner: str) -> None:
    session.run("UPDATE `msg_lease` SET owner=NULL, lease_until_ms=0 WHERE owner=%s", (owner,))


@dataclass(frozen=True, slots=True)
class SchemaLease:
    """Held while tables are made, changed or dropped."""

    owner: str

    def check(self, session: DbConnection) -> None:
        """Before each step: EngineUnavailable when another process has taken over. Renews it."""
        count = session.run(
            f"UPDATE `msg_lease` SET lease_until_ms={NOW}+%s WHERE name=%s AND owner=%s",
            (LEASE_MS, _SCHEMA, self.owner),
        )
        if not count:
            raise EngineUnavailable(
                "another process has taken over the change of the tables: try again"
            )


@contextmanager
def schema_lease(session: DbConnection, renewals: Pool) -> Iterator[SchemaLease]:
    """The lease, once no other process holds it; EngineUnavailable after 20 seconds. ``renewals``
    has a connection for renewing it while ``session`` is busy with a long statement."""
    session.run(tables.LEASES)
    lease = SchemaLease(uuid.uuid4().hex)

    def take() -> None:
        if not take_lease(session, _SCHEMA, lease.owner):
            raise EngineUnavailable("another process is changing the tables; nothing was done")

    _TURN.run(take, lambda error: isinstance(error, EngineUnavailable))
    done = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(lease, renewals, done), name="headrace-mysql-lease", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        done.set()
        renewing.join()
        with suppress(Fault):  # it ends by itself
            release_leases(session, lease.owner)


def _renew(lease: SchemaLease, pool: Pool, done: threading.Event) -> None:
    while not done.wait(LEASE_MS / 3000):
        with suppress(Fault, BrokerError), pool.session() as session:  # the next step checks it
            lease.check(session)
