"""The topics of a database: made, found, deleted. Rows of `msg_topic` are the whitelist of names.

DDL is not transactional: a topic is `making` until all its tables are there and `deleting` while
they go, so that the next process can finish after a crash.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.errors import BadTopicName, BadTopicValue, NoSuchTopic, TopicConflict
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.model.topics.names import check_topic
from headrace.model.topics.source_address import packed_address
from headrace.store.mysql import schema, tables
from headrace.store.mysql.schema import SchemaLease, schema_lease
from headrace.store.sql.connection import DbConnection, check_version
from headrace.store.sql.pool import Pool
from headrace.store.topics.types import TopicSpec

ID_STEPS: Final = "the server gives ids in steps (auto_increment_increment is not 1)"
_FRESH_S: Final = 2.0  # how long a topic found is believed to be there
MAX_QUEUES: Final = 1024
_COLUMNS: Final = (
    "topic, uuid, state, queues, append_mode, retention_ms, retention_bytes, keep_unread, "
    "partition_rows, CAST(UNIX_TIMESTAMP(created_at)*1000 AS SIGNED)"
)


@dataclass(frozen=True, slots=True)
class CatalogTopic:
    """A row of the catalogue."""

    name: str
    uuid: str
    state: str
    queues: int
    append_mode: str
    retention: Retention | None
    keep_unread: bool
    partition_rows: int | None
    created_at: int


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The engine's own options of a topic."""

    append_mode: str = "auto"
    partition_rows: int | None = None
    first_id: int = 1
    keep_unread: bool = False


def parse_options(options: Mapping[str, object]) -> TopicOptions:
    """BadTopicValue for what is unknown or out of bounds."""
    known = {"append_mode", "partition_rows", "first_id", "keep_unread"}
    if unknown := sorted(set(options) - known):
        raise BadTopicValue(
            f"topic option {unknown[0]!r} is unknown to MySQL: {', '.join(sorted(known))}"
        )
    mode = options.get("append_mode", "auto")
    if mode not in ("auto", "counter"):
        raise BadTopicValue(f"append_mode {mode!r} is unknown: auto or counter")
    rows = options.get("partition_rows")
    return TopicOptions(
        str(mode),
        None if rows is None else _whole("partition_rows", rows, 1000),
        _whole("first_id", options.get("first_id", 1), 1),
        bool(options.get("keep_unread", False)),
    )


def _whole(name: str, value: object, least: int) -> int:
    if type(value) is not int or not least <= value < 1 << 62:
        raise BadTopicValue(f"topic option {name} must be a whole number from {least} on")
    return value


class TopicCatalog:
    """May be used from any thread. Topics are remembered for a moment."""

    def __init__(self, pool: Pool, ddl: Pool, *, lazily: bool = False) -> None:
        """``lazily``: the first call looks whether the server is there."""
        self._pool = pool
        self._ddl = ddl  # its sessions have the patience for changes of large tables
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, CatalogTopic]] = {}
        self.packet: int | None = None  # the largest statement, when the server was reached
        self.own_address: bytes | None = None  # of this process, as the server sees it
        if not lazily:
            self.prepare()

    def prepare(self) -> int:
        """Once: look at the server, and make the tables that all topics share."""
        if self.packet is None:
            self.packet = self._pool.call(self._prepare, repeatable=True)
        return self.packet

    def _prepare(self, session: DbConnection) -> int:
        check_version(str(session.version))
        place = self._pool.place
        with session.synced():
            found = schema.find_version(session, place)
        if found != tables.VERSION:
            self._change(lambda ddl, lease: schema.make_or_upgrade(ddl, lease, place))
        if (address := session.own_address) is not None:
            self.own_address = packed_address(address)
        return int(session.packet)

    def _change(
        self, work: Callable[[DbConnection, SchemaLease], None], *, repeatable: bool = False
    ) -> None:
        """Work on tables while no other process does."""

        def change(session: DbConnection) -> None:
            with session.synced(), schema_lease(session, self._pool) as lease:
                work(session, lease)

        self._ddl.call(change, repeatable=repeatable)

    # -- finding ---------------------------------------------------------------------------------

    def get(self, name: str) -> CatalogTopic:
        """NoSuchTopic when it is not there; what was found a moment ago is believed."""
        found_at, topic = self._known.get(name, (0.0, None))
        if topic is not None and time.monotonic() - found_at < _FRESH_S:
            return topic
        return self.load(name)

    def check(self, name: str) -> None:
        """NoSuchTopic for what cannot be one."""
        try:
            check_topic(name)
        except BadTopicName as error:
            raise NoSuchTopic(f"there is no such topic: {error}") from None
        self.prepare()

    def load(self, name: str) -> CatalogTopic:
        self.check(name)
        topic = self._pool.call(lambda session: _find_synced(session, name), repeatable=True)
        with self._lock:
            if topic is None or topic.state != "ready":
                self._known.pop(name, None)
                raise NoSuchTopic(f"there is no topic {name!r} in {self._pool.place}")
            self._known[name] = (time.monotonic(), topic)
        return topic

    def forget(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def all(self) -> list[CatalogTopic]:
        self.prepare()
        sql = f"SELECT {_COLUMNS} FROM `msg_topic` WHERE state='ready' ORDER BY topic"

        def work(session: DbConnection) -> list[CatalogTopic]:
            with session.synced():
                return [_topic(row) for row in session.rows(sql)]

        return self._pool.call(work, repeatable=True)

    # -- making ----------------------------------------------------------------------------------

    def create(self, spec: TopicSpec) -> None:
        check_topic(spec.name)
        options = parse_options(spec.options)
        if not 1 <= spec.queues <= MAX_QUEUES:
            raise BadTopicValue(f"a topic has 1 to {MAX_QUEUES} queues, not {spec.queues}")
        self.prepare()
        self._change(lambda session, lease: self._create(session, lease, spec, options))
        self.forget(spec.name)

    def _create(
        self, session: DbConnection, lease: SchemaLease, spec: TopicSpec, options: TopicOptions
    ) -> None:
        found = _find(session, spec.name)
        if found is not None and found.state == "ready":
            _check_same(found, spec, options)
            return
        if found is not None:
            self._drop(session, lease, spec.name)  # a process died in the middle
        _refuse_strangers(session, spec.name)
        if options.append_mode == "auto" and session.id_step != 1:
            raise BadTopicValue(ID_STEPS + ": create the topic with append_mode=counter")
        retention = spec.retention or Retention()
        session.run(
            "INSERT INTO `msg_topic` (topic,uuid,queues,append_mode,retention_ms,retention_bytes,"
            "keep_unread,partition_rows) VALUES (%s,%s,%s,%s,%s,%s,%s,%s)",
            (spec.name, str(uuid.uuid4()), spec.queues, options.append_mode, retention.ms,
             retention.size, int(options.keep_unread), options.partition_rows),
        )  # fmt: skip
        for statement in tables.topic_statements(
            spec.name,
            has_queues=spec.queues > 1,
            first_id=options.first_id,
            partition_rows=options.partition_rows,
        ):
            lease.check(session)
            session.run(statement)
        lease.check(session)
        first = options.first_id
        make_states(
            session, spec.name, {priority.label: (first - 1, first) for priority in BY_URGENCY}
        )
        session.run("UPDATE `msg_topic` SET state='ready' WHERE topic=%s", (spec.name,))

    def adopt(self, name: str, work: Callable[[DbConnection, SchemaLease, str], None]) -> None:
        """Work on the tables of a name that is no topic yet."""
        check_topic(name)
        self.prepare()
        self.forget(name)
        self._change(lambda session, lease: work(session, lease, name), repeatable=True)

    # -- deleting --------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        self.check(name)

        def work(session: DbConnection, lease: SchemaLease) -> None:
            found = _find(session, name)
            if found is None or found.state == "making":
                raise NoSuchTopic(f"there is no topic {name!r} in {self._pool.place}")
            session.run("UPDATE `msg_topic` SET state='deleting' WHERE topic=%s", (name,))
            self._drop(session, lease, name)

        self.forget(name)
        self._change(work, repeatable=True)

    def _drop(self, session: DbConnection, lease: SchemaLease, name: str) -> None:
        for table in tables.tables(name):
            lease.check(session)
            session.run(f"DROP TABLE IF EXISTS {table}")
        lease.check(session)
        for shared in ("msg_readable", "msg_counter", "msg_topic"):
            session.run(f"DELETE FROM `{shared}` WHERE topic=%s", (name,))


def make_states(session: DbConnection, name: str, ends: Mapping[str, tuple[int, int]]) -> None:
    """Stable and lowest id of each priority."""
    for label, (stable, low) in ends.items():
        session.run(
            "REPLACE INTO `msg_readable` (topic,priority,stable_id,low_id) VALUES (%s,%s,%s,%s)",
            (name, label, stable, low),
        )
        session.run(
            "REPLACE INTO `msg_counter` (topic,priority,last_id) VALUES (%s,%s,%s)",
            (name, label, stable),
        )


def _find_synced(session: DbConnection, name: str) -> CatalogTopic | None:
    """Including what another node of a cluster has just made."""
    with session.synced():
        return _find(session, name)


def _find(session: DbConnection, name: str) -> CatalogTopic | None:
    rows = session.rows(f"SELECT {_COLUMNS} FROM `msg_topic` WHERE topic=%s", (name,))
    return _topic(rows[0]) if rows else None


def _topic(row: tuple[object, ...]) -> CatalogTopic:
    name, its_uuid, state, queues, mode, ms, size, keep, rows, created = row
    retention = None if ms is None and size is None else Retention(_number(ms), _number(size))
    return CatalogTopic(
        str(name),
        str(its_uuid),
        str(state),
        _number(queues) or 1,
        str(mode),
        retention,
        bool(keep),
        _number(rows),
        _number(created) or 0,
    )


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))


def _check_same(found: CatalogTopic, spec: TopicSpec, options: TopicOptions) -> None:
    """TopicConflict unless it is what is asked for; of the options, those that are named."""
    if (found.queues, found.retention) != (spec.queues, spec.retention):
        raise TopicConflict(
            f"topic {spec.name!r} is there with {found.queues} queues and retention "
            f"{found.retention}, not {spec.queues} and {spec.retention}; nothing was changed"
        )
    for name in ("append_mode", "partition_rows", "keep_unread"):
        if name in spec.options and getattr(found, name) != getattr(options, name):
            raise TopicConflict(
                f"topic {spec.name!r} is there with {name}={getattr(found, name)!r}, not "
                f"{getattr(options, name)!r}; nothing was changed"
            )


def _refuse_strangers(session: DbConnection, name: str) -> None:
    wanted = [table.strip("`") for table in tables.tables(name)]
    rows = session.rows(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() "
        f"AND TABLE_NAME IN ({','.join(['%s'] * len(wanted))}) ORDER BY 1",
        wanted,
    )
    if rows:
        raise TopicConflict(
            f"table {rows[0][0]} exists and does not belong to a topic; adopt such tables with "
            f"`headrace topic adopt {name}`, or drop them"
        )
