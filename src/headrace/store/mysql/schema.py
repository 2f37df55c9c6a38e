"""The tables that all topics share: made when they are missing, upgraded in place.

Version 1 had `last_id` and `stable_id` in one row of `msg_topic_state`. The first step of the
upgrade renames that table, so that whatever a program of version 1 does next fails: beside
programs of version 2 it would lose messages on a cluster. DDL is not transactional: each step
looks at what is there, and an upgrade that was interrupted is finished by the next process.
"""

from __future__ import annotations

from headrace.errors import ConfigError, EngineUnavailable
from headrace.store.mysql import tables
from headrace.store.mysql.schema_lease import LEASE_MS, SchemaLease
from headrace.store.mysql.tables import NOW
from headrace.store.sql.connection import DbConnection


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
