"""The tables of shards, and the few transactions on them.

Statements are sent one at a time: on a cluster a transaction may be aborted between two statements
of one packet, and the COMMIT at its end would still be answered with OK.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from headrace.errors import StoreError
from headrace.model.shard_ownership import (
    ShardRow,
    has_lost_commits,
    snapshot_is_complete,
    taken_over,
)
from headrace.store.failpoints import failpoint
from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault, FaultKind
from headrace.store.sql.pool import HostList
from headrace.store.sql.url import MySqlSettings

T = TypeVar("T")

logger = logging.getLogger(__name__)

FORMAT: Final = 1
CONNECT_S: Final = 2
STATEMENT_S: Final = 5
LOCK_WAIT_S: Final = 1

_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS hr_shard (
        shard VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
        format INT NOT NULL, epoch BIGINT NOT NULL, seq BIGINT NOT NULL,
        owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
        node VARCHAR(255) NOT NULL, address VARCHAR(255) NOT NULL,
        server VARCHAR(255) NOT NULL, connection BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS hr_epoch (
        shard VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        epoch BIGINT NOT NULL, seq BIGINT NOT NULL, node VARCHAR(255) NOT NULL,
        reason VARCHAR(255) NOT NULL, began DATETIME(3) NOT NULL,
        PRIMARY KEY (shard, epoch)) ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS hr_file (
        shard VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        generation BIGINT NOT NULL, size BIGINT NOT NULL,
        PRIMARY KEY (shard, name)) ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS hr_block (
        shard VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        generation BIGINT NOT NULL, at BIGINT NOT NULL, seq BIGINT NOT NULL,
        data MEDIUMBLOB NOT NULL,
        PRIMARY KEY (shard, name, generation, at), KEY by_seq (shard, seq)) ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS hr_node (
        shard VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        node VARCHAR(255) NOT NULL, process VARCHAR(64) NOT NULL, address VARCHAR(255) NOT NULL,
        version VARCHAR(40) NOT NULL, beats BIGINT NOT NULL, cached BIGINT NOT NULL,
        PRIMARY KEY (shard, node)) ENGINE=InnoDB""",
)


class PutBlock(NamedTuple):
    """Bytes of one generation of a file."""

    name: str
    generation: int
    at: int
    data: bytes


class PutFile(NamedTuple):
    """The file is this generation from now on; blocks of others go."""

    name: str
    generation: int
    size: int


class DropFile(NamedTuple):
    name: str


Change = PutBlock | PutFile | DropFile


class ShardStatus(NamedTuple):
    """The shard's row, and who its owner is."""

    row: ShardRow
    node: str
    address: str  # of the owner's AMQP port


class ShardNode(NamedTuple):
    """A node that is alive, or was when it was last listed."""

    name: str
    address: str
    version: str
    cached: int  # the commit that its copy of the files has
    beats: int  # grows while it is alive


class TakeOver(NamedTuple):
    epoch: int
    node: str
    reason: str
    began: str  # UTC


class ShardFile(NamedTuple):
    generation: int
    size: int


class ShardDatabase:
    """One connection, opened again when it is lost. Used by one thread at a time."""

    def __init__(self, settings: MySqlSettings, shard: str, *, lease: float) -> None:
        self._settings = replace(settings, connect_timeout=CONNECT_S, timeout=STATEMENT_S)
        self._shard = shard
        self._lease = lease
        self._hosts = HostList(self._settings)
        self._connection: DbConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _session(self) -> Iterator[DbConnection]:
        if self._connection is None or self._connection.is_broken:
            self.close()
            self._connection = self._open()
        try:
            yield self._connection
        except Fault as fault:
            if fault.kind is not FaultKind.AGAIN and self._connection is not None:
                self._hosts.leave(self._connection.host)
                self.close()
            raise

    def _open(self) -> DbConnection:
        session = self._hosts.connect(self._settings, LOCK_WAIT_S)
        # A node that hangs between update and commit must not keep the row locked for hours.
        seconds = max(1, int(self._lease))
        for setting in (
            f"wait_timeout={seconds}",
            f"idle_write_transaction_timeout={seconds}",
        ):
            with suppress(Fault):  # MySQL does not know the second
                session.run(f"SET SESSION {setting}")
        return session

    # -- ownership -------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the tables and the shard's row, if they are not there."""
        with self._session() as session:
            for table in _TABLES:
                session.run(table)
            session.run(
                "INSERT IGNORE INTO hr_shard VALUES (%s, %s, 0, 0, NULL, '', '', '', 0)",
                (self._shard, FORMAT),
            )

    def status(self) -> ShardStatus:
        """As of now: on a cluster the read waits for what other nodes have committed."""
        with self._session() as session, session.synced():
            return self._status(session)

    def _status(self, session: DbConnection) -> ShardStatus:
        rows = session.rows(
            "SELECT epoch, seq, owner, node, address FROM hr_shard WHERE shard=%s", (self._shard,)
        )
        if not rows:
            raise StoreError(f"the database has no shard '{self._shard}'")
        [(epoch, seq, owner, node, address)] = rows
        return ShardStatus(ShardRow(epoch, seq, owner), node, address)

    def start_of(self, epoch: int) -> int | None:
        """The number of the commit with which an epoch began."""
        with self._session() as session, session.synced():
            return _start_of(session, self._shard, epoch)

    def take_over(
        self, seen: ShardRow, incarnation: str, *, node: str, address: str, reason: str
    ) -> bool:
        """Become the owner; False when the row has changed since it was seen."""
        after = taken_over(seen, incarnation)
        if seen.owner is not None:  # it may have stopped between update and commit
            self._end_session_of_owner()

        def work(session: DbConnection) -> bool:
            changed = session.run(
                "UPDATE hr_shard SET epoch=%s, seq=%s, owner=%s, node=%s, address=%s,"
                " connection=CONNECTION_ID(), server=CONCAT(@@hostname, ':', @@port)"
                " WHERE shard=%s AND epoch=%s AND seq=%s AND owner<=>%s",
                (*after, node, address, self._shard, *seen),
            )
            if changed:
                session.run(
                    "REPLACE INTO hr_epoch VALUES (%s, %s, %s, %s, %s, UTC_TIMESTAMP(3))",
                    (self._shard, after.epoch, after.seq, node, reason),
                )
            return bool(changed)

        return self._transaction(work)

    def _end_session_of_owner(self) -> None:
        """Its transaction would keep the row locked. After a restart of the server another session
        may have its number: one that uses another database is left alone."""
        with suppress(Fault), self._session() as session:
            rows = session.rows(
                "SELECT id FROM information_schema.processlist JOIN hr_shard ON id=connection"
                " WHERE shard=%s AND server=CONCAT(@@hostname, ':', @@port) AND db=DATABASE()",
                (self._shard,),
            )
            for (connection,) in rows:
                logger.warning("ending session %d of the last owner", connection)
                session.run("KILL %s", (connection,))

    def commit(self, done: ShardRow, changes: Sequence[Change]) -> bool:
        """Make all changes as commit ``done.seq + 1``; False when ``done`` is not the last one.

        A Fault leaves open whether it was made, unless it says that nothing was done.
        """
        seq = done.seq + 1

        def work(session: DbConnection) -> bool:
            changed = session.run(
                "UPDATE hr_shard SET seq=%s, connection=CONNECTION_ID(),"
                " server=CONCAT(@@hostname, ':', @@port) WHERE shard=%s AND owner=%s AND seq=%s",
                (seq, self._shard, done.owner, done.seq),
            )
            if changed:
                failpoint("shared.updated")
                for change in changes:
                    self._make(session, change, seq)
                failpoint("shared.commit")
            return bool(changed)

        return self._transaction(work)

    def release(self, done: ShardRow) -> bool:
        """After the last commit: no owner, so that a standby need not wait."""
        with self._session() as session:
            return bool(
                session.run(
                    "UPDATE hr_shard SET owner=NULL WHERE shard=%s AND owner=%s AND seq=%s",
                    (self._shard, done.owner, done.seq),
                )
            )

    def _transaction(self, work: Callable[[DbConnection], bool]) -> bool:
        """Commit what the work did; rolled back when it returns False."""
        with self._session() as session:
            session.run("BEGIN")
            try:
                is_done = work(session)
                session.run("COMMIT" if is_done else "ROLLBACK")
            except BaseException:
                with suppress(Fault):
                    session.run("ROLLBACK")
                raise
            return is_done

    def _make(self, session: DbConnection, change: Change, seq: int) -> None:
        if isinstance(change, PutBlock):
            name, generation, at, data = change
            session.run(
                "REPLACE INTO hr_block VALUES (%s, %s, %s, %s, %s, _binary %s)",
                (self._shard, name, generation, at, seq, data),
            )
            return
        if isinstance(change, PutFile):
            session.run("REPLACE INTO hr_file VALUES (%s, %s, %s, %s)", (self._shard, *change))
            session.run(
                "DELETE FROM hr_block WHERE shard=%s AND name=%s AND generation<>%s",
                (self._shard, change.name, change.generation),
            )
            return
        for table in ("hr_file", "hr_block"):
            session.run(
                f"DELETE FROM {table} WHERE shard=%s AND name=%s", (self._shard, change.name)
            )

    # -- contents --------------------------------------------------------------------------------

    @contextmanager
    def snapshot(self, taken: ShardRow | None = None) -> Iterator[ShardSnapshot | None]:
        """One consistent view; None when it is not the one after the take-over ``taken``."""
        with self._session() as session, session.synced():
            session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                row = self._status(session).row
                if taken is not None and not snapshot_is_complete(row, taken):
                    yield None
                else:
                    yield ShardSnapshot(session, self._shard, row)
            finally:
                with suppress(Fault):
                    session.run("ROLLBACK")

    # -- nodes -----------------------------------------------------------------------------------

    def beat(self, node: str, process: str, *, address: str, version: str, cached: int) -> bool:
        """Note that the node is alive; False when another process has its name."""
        with self._session() as session:
            changed = session.run(
                "UPDATE hr_node SET beats=beats+1, cached=%s WHERE shard=%s AND node=%s"
                " AND process=%s",
                (cached, self._shard, node, process),
            )
            if not changed:
                changed = session.run(
                    "INSERT IGNORE INTO hr_node VALUES (%s, %s, %s, %s, %s, 0, %s)",
                    (self._shard, node, process, address, version, cached),
                )
            return bool(changed)

    def process_of(self, node: str) -> tuple[str, int] | None:
        """Which process has the name of a node, and how often it was seen alive."""
        with self._session() as session, session.synced():
            found = session.rows(
                "SELECT process, beats FROM hr_node WHERE shard=%s AND node=%s",
                (self._shard, node),
            )
        return (str(found[0][0]), int(found[0][1])) if found else None

    def nodes(self) -> list[ShardNode]:
        with self._session() as session, session.synced():
            rows = session.rows(
                "SELECT node, address, version, cached, beats FROM hr_node WHERE shard=%s"
                " ORDER BY node",
                (self._shard,),
            )
        return [ShardNode(*row) for row in rows]

    def take_overs(self, count: int) -> list[TakeOver]:
        """The last ones, the latest first."""
        with self._session() as session, session.synced():
            rows = session.rows(
                "SELECT epoch, node, reason, CAST(began AS CHAR) FROM hr_epoch WHERE shard=%s"
                " ORDER BY epoch DESC LIMIT %s",
                (self._shard, count),
            )
        return [TakeOver(*row) for row in rows]

    def remove_node(self, node: str, process: str) -> None:
        with self._session() as session:
            session.run(
                "DELETE FROM hr_node WHERE shard=%s AND node=%s AND process=%s",
                (self._shard, node, process),
            )


def _start_of(session: DbConnection, shard: str, epoch: int) -> int | None:
    found = session.rows("SELECT seq FROM hr_epoch WHERE shard=%s AND epoch=%s", (shard, epoch))
    return int(found[0][0]) if found else None


class ShardSnapshot:
    """The files of a shard at one commit."""

    def __init__(self, session: DbConnection, shard: str, row: ShardRow) -> None:
        self._session = session
        self._shard = shard
        self.row = row

    def is_behind(self, seen: ShardRow) -> bool:
        """Whether the database has lost commits that were seen."""
        start = _start_of(self._session, self._shard, seen.epoch + 1)
        return has_lost_commits(self.row, seen, start)

    def files(self) -> Mapping[str, ShardFile]:
        rows = self._session.rows(
            "SELECT name, generation, size FROM hr_file WHERE shard=%s", (self._shard,)
        )
        return {str(name): ShardFile(generation, size) for name, generation, size in rows}

    def changed_since(self, seq: int) -> set[str]:
        """Names of files with blocks that later commits wrote."""
        rows = self._session.rows(
            "SELECT DISTINCT name FROM hr_block WHERE shard=%s AND seq>%s", (self._shard, seq)
        )
        return {str(name) for (name,) in rows}

    def blocks(self, name: str, generation: int, *, since: int) -> list[tuple[int, bytes]]:
        """Positions and bytes that commits after ``since`` wrote."""
        rows = self._session.rows(
            "SELECT at, data FROM hr_block WHERE shard=%s AND name=%s AND generation=%s AND seq>%s"
            " ORDER BY at",
            (self._shard, name, generation, since),
        )
        return [(int(at), bytes(data)) for at, data in rows]
