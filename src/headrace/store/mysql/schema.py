"""The tables that all topics share: made when they are missing, upgraded in place.

Version 1 had `last_id` and `stable_id` in one row of `msg_topic_state`. The first step of the
upgrade renames that table, so that whatever a program of version 1 does next fails: beside
programs of version 2 it would lose messages on a cluster. DDL is not transactional: each step
looks at what is there, and an upgrade that was interrupted is finished by the next process.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from headrace.errors import BrokerError, ConfigError, EngineUnavailable
from headrace.retry import RetryPolicy
from headrace.store.mysql import tables
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault
from headrace.store.sql.pool import Pool


def find_version(session: DbConnection, place: str) -> int | None:
    """None when the tables are not there yet; ConfigError when they are newer than this program."""
    if not _has_table(session, "msg_schema"):
        return None
    [(version,)] = session.rows("SELECT MAX(version) FROM `msg_schema`")
    if version is not None and version > tables.VERSION:
        raise ConfigError(
            f"the tables in {place} are of version {version}, this program knows "
            f"{tables.VERSION}: upgrade it"
        )
    return None if version is None else int(version)


def make_or_upgrade(session: DbConnection, lease: SchemaLease, place: str) -> None:
    """The version is written when everything else is done."""
    found = find_version(session, place)
    if found == tables.VERSION:
        return  # by another process, in the meantime
    if found == 1:
        _upgrade(session, lease, place)
    for statement in tables.SHARED:
        lease.check(session)
        session.run(statement)
    session.run("INSERT IGNORE INTO `msg_schema` (version) VALUES (%s)", (tables.VERSION,))


def _upgrade(session: DbConnection, lease: SchemaLease, place: str) -> None:
    if _has_table(session, "msg_topic_state"):
        _refuse_while_in_use(session, place)
        lease.check(session)
        session.run("RENAME TABLE `msg_topic_state` TO `msg_readable`")
    lease.check(session)
    session.run(tables.COUNTERS)
    if session.rows("SHOW COLUMNS FROM `msg_readable` LIKE 'last_id'"):
        lease.check(session)
        session.run(
            "INSERT IGNORE INTO `msg_counter` (topic,priority,last_id) "
            "SELECT topic,priority,last_id FROM `msg_readable`"
        )
        lease.check(session)
        session.run("ALTER TABLE `msg_readable` DROP COLUMN last_id")


def _refuse_while_in_use(session: DbConnection, place: str) -> None:
    rows = session.rows(
        f"SELECT node_id FROM `msg_node` WHERE heartbeat_ms>={NOW}-%s ORDER BY 1", (LEASE_MS,)
    )
    if rows:
        raise EngineUnavailable(
            f"the tables in {place} are of version 1 and programs of that version use them: "
            f"{', '.join(str(node) for (node,) in rows)}. Stop them, then try again; "
            "nothing was changed"
        )


def _has_table(session: DbConnection, name: str) -> bool:
    return bool(session.rows(f"SHOW TABLES LIKE '{name}'"))


LEASE_MS: Final = 10_000
_SCHEMA: Final = "schema"
_TURN: Final = RetryPolicy(deadline_s=20, first_pause_s=0.01, max_pause_s=0.25)


def take_lease(session: DbConnection, name: str, owner: str) -> bool:
    """Whether ``owner`` holds the lease, which it takes if it is free or over.

    Work that one process of all does at a time has one, on any cluster: a named lock of the server
    (GET_LOCK) is known to one node only; a row is certified.
    """
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
