"""The Metadata contract. Every engine runs every test; an engine adds one line to ENGINES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.errors import MalformedError, StoreError
from headrace.store.api.metadata import Declarations, Metadata
from headrace.store.api.rows import (
    BindingRow,
    CursorRow,
    ExchangeRow,
    PermissionRow,
    PolicyRow,
    QueueRow,
    RetryRow,
    Row,
    SecretRow,
    TopicPermissionRow,
    TopicRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)
from headrace.store.shared.metadata import SharedMetadata
from headrace.store.sqlite import SqliteMetadata
from headrace.wire.amqp.values import LongInt, Timestamp
from support.callback_queue import Handover
from support.mariadb import MariaDb
from support.memory_metadata import MemoryMetadata
from support.storage.shard_owner import TakeOvers


def reopen_sqlite(directory: Path, before: Metadata | None) -> Metadata:
    return SqliteMetadata(directory)


def reopen_memory(directory: Path, before: Metadata | None) -> Metadata:
    return MemoryMetadata(before.load() if before else None)


def reopen_shared(directory: Path, before: Metadata | None) -> Metadata:
    """Another node takes over."""
    if before is not None:
        assert isinstance(before, SharedMetadata)
        before.files.flush()
    cache, files, _ = TAKE_OVERS[directory].next()
    return SharedMetadata(cache, files)


TAKE_OVERS: dict[Path, TakeOvers] = {}
ENGINES: dict[str, Callable[[Path, Metadata | None], Metadata]] = {
    "memory": reopen_memory,
    "sqlite": reopen_sqlite,
    "shared": reopen_shared,
}


class Stage:
    """A store that is started, and can be started again on what it keeps."""

    def __init__(self, engine: str, directory: Path) -> None:
        self._open = ENGINES[engine]
        self._directory = directory
        self.loop = Handover()
        self.store = self._open(directory, None)

    def start(self) -> Metadata:
        self.loop.start(self.store)
        return self.store

    def restart(self) -> Metadata:
        self.reopen()
        return self.start()

    def reopen(self) -> Declarations:
        """Close and open again; returns what was kept."""
        self.store.close()
        self.loop = Handover()
        self.store = self._open(self._directory, self.store)
        return self.store.load()


@pytest.fixture(params=ENGINES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    if request.param == "shared":
        server: MariaDb = request.getfixturevalue("mariadb_server")
        database = f"metadata_{uuid4().hex[:12]}"
        server.create_database(database)
        TAKE_OVERS[tmp_path] = TakeOvers(tmp_path, server.url(database))
    stage = Stage(request.param, tmp_path)
    yield stage
    stage.store.close()


EXCHANGE = ExchangeRow("/", "ex", "topic", True, True, {"alternate-exchange": "other"})
QUEUE = QueueRow(7, "u-7", "/", "q", True, {"x-max-length": 5})
BINDING = BindingRow("/", "ex", True, "q", "a.#", {"x-match": "any"})
POLICY = PolicyRow("/", "p", "^a", "queues", -3, {"max-length": 10})
USER = UserRow("ann", "scrypt$...", ("administrator", "a,b"))
SECRET = SecretRow("ann", "s3cret-s3cret")
PERMISSION = PermissionRow("ann", "/", "", ".*", "^a")
TOPICS = TopicPermissionRow("ann", "/", "ex", "^a", "")
USER_LIMITS = UserLimitsRow("ann", {"max-channels": 3})
VHOST_LIMITS = VhostLimitsRow("/", {"max-queues": -1})
TOPIC = TopicRow("/", "t", "u-1", 4, 5, {"retention-ms": 9}, {"low.0": 3}, 3)
CURSOR = CursorRow("u-1", "g", "", 2, 1, "claims", 7, 1, (9, 12, 14, 15))
RETRY = RetryRow("u-1", "g", 2, 1, 8, 3, 1 << 41, True, "no such order")

KINDS: dict[str, tuple[Row, Row]] = {
    "exchanges": (EXCHANGE, ExchangeRow("/", "ex", "fanout")),
    "queues": (QUEUE, QueueRow(7, "u-7", "/", "q")),
    "policies": (POLICY, PolicyRow("/", "p", "b", "all", 0, {})),
    "users": (USER, UserRow("ann", "other")),
    "secrets": (SECRET, SecretRow("ann", "another")),
    "permissions": (PERMISSION, PermissionRow("ann", "/", "1", "2", "3")),
    "topic_permissions": (TOPICS, TopicPermissionRow("ann", "/", "ex", "", "b")),
    "user_limits": (USER_LIMITS, UserLimitsRow("ann", {})),
    "vhost_limits": (VHOST_LIMITS, VhostLimitsRow("/", {"max-queues": 4})),
    "topics": (TOPIC, TopicRow("/", "t", "u-1", 4, 5, {}, {"low.0": 3, "high.0": 4}, 4)),
    "cursors": (CURSOR, CursorRow("u-1", "g", "", 2, 1, "claims", 15)),
    "retries": (RETRY, RetryRow("u-1", "g", 2, 1, 8, 4, 1)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def rows_of(declarations: Declarations) -> list[Row]:
    return [
        *declarations.exchanges,
        *declarations.queues,
        *declarations.bindings,
        *declarations.policies,
        *declarations.users,
        *declarations.secrets,
        *declarations.permissions,
        *declarations.topic_permissions,
        *declarations.user_limits,
        *declarations.vhost_limits,
        *declarations.topics,
        *declarations.cursors,
        *declarations.retries,
    ]


# -- rows -----------------------------------------------------------------------------------------


def test_a_new_store_is_empty(stage: Stage) -> None:
    assert stage.store.load() == Declarations(next_queue_id=1)


@pytest.mark.parametrize("row", [BINDING, *(row for row, _ in KINDS.values())], ids=repr)
def test_a_saved_row_comes_back_whole(stage: Stage, row: Row) -> None:
    stage.start().save(row)

    assert rows_of(stage.reopen()) == [row]


@every_kind
def test_saving_again_replaces_the_row_of_the_same_identity(stage: Stage, kind: str) -> None:
    before, after = KINDS[kind]
    store = stage.start()
    store.save(before)
    store.save(after)

    assert rows_of(stage.reopen()) == [after]


@every_kind
def test_a_deleted_row_is_gone_and_its_like_stay(stage: Stage, kind: str) -> None:
    row, _ = KINDS[kind]
    others: list[Row] = [
        ExchangeRow("/", "ex2", "direct"),
        QueueRow(1, "u-1", "other", "q"),
        PolicyRow("other", "p", "", "all", 0, {}),
        UserRow("bob", ""),
        SecretRow("bob", "x"),
        PermissionRow("bob", "/", "", "", ""),
        TopicPermissionRow("bob", "/", "ex", "", ""),
        UserLimitsRow("bob", {}),
        VhostLimitsRow("other", {}),
        TopicRow("/", "t2", "u-2", 1, 5),
        CursorRow("u-2", "g", "", 0, 0),
        RetryRow("u-2", "g", 0, 0, 1),
    ]
    store = stage.start()
    for each in [*others, row]:
        store.save(each)
    store.delete(row)

    assert rows_of(stage.reopen()) == others


@every_kind
def test_deleting_what_is_not_there_is_no_error(stage: Stage, kind: str) -> None:
    store = stage.start()
    store.delete(KINDS[kind][0])
    store.delete(BINDING)
    store.delete_vhost("nowhere")

    assert stage.reopen() == Declarations()


def test_vhosts_are_kept_once_and_in_order(stage: Stage) -> None:
    store = stage.start()
    for name in ("b", "a", "b", "c"):
        store.save_vhost(name)
    store.delete_vhost("c")

    assert stage.reopen().vhosts == ["a", "b"]


def test_a_catalogue_has_queues_by_age_and_the_rest_by_name(stage: Stage) -> None:
    store = stage.start()
    for row in (QueueRow(2, "", "/", "a"), QueueRow(1, "", "/", "b")):
        store.save(row)
    for name in ("y", "x"):
        store.save(ExchangeRow("/", name, "direct"))

    declarations = stage.reopen()

    assert [row.id for row in declarations.queues] == [1, 2]
    assert [row.name for row in declarations.exchanges] == ["x", "y"]


# -- what a row can hold --------------------------------------------------------------------------

AWKWARD = [
    "",
    "it's; DROP TABLE queues;--",
    'double "quotes" and `ticks`',
    "nul\0inside",
    "größer 队列 🐇",
    b"\xff\xfe not utf-8".decode("utf-8", "surrogateescape"),
    "x" * 255,
]


@pytest.mark.parametrize("name", AWKWARD, ids=ascii)
def test_any_name_from_the_wire_is_kept(stage: Stage, name: str) -> None:
    rows: list[Row] = [
        ExchangeRow(name, name, "direct"),
        QueueRow(1, name, name, name),
        BindingRow(name, name, True, name, name, {name: name}),
        PolicyRow(name, name, name, "all", 0, {name: name}),
        UserRow(name, name, (name,)),
        SecretRow(name, name),
        PermissionRow(name, name, name, name, name),
        TopicPermissionRow(name, name, name, name, name),
        UserLimitsRow(name, {name: 1}),
        VhostLimitsRow(name, {name: 1}),
    ]
    store = stage.start()
    store.save_vhost(name)
    for row in rows:
        store.save(row)
    declarations = stage.reopen()

    assert (declarations.vhosts, rows_of(declarations)) == ([name], rows)
    stage.start().delete_vhost(name)
    assert rows_of(stage.reopen()) == [rows[4], rows[5], rows[8]]


def test_arguments_keep_their_types(stage: Stage) -> None:
    arguments: dict[str, object] = {
        "bool": True,
        "int": 1,
        "long": LongInt(1),
        "large": LongInt(2**62),
        "time": Timestamp(1),
        "float": 1.0,
        "decimal": Decimal("1.10"),
        "bytes": b"\xff\0",
        "none": None,
        "list": [1, "a", {"b": [True]}],
        "table": {"c": {"d": 1}},
    }
    stage.start().save(QueueRow(1, "u", "/", "q", arguments=arguments))

    (queue,) = stage.reopen().queues

    assert queue.arguments == arguments
    assert [type(value) for value in queue.arguments.values()] == [
        type(value) for value in arguments.values()
    ]


def test_what_changes_after_save_is_not_seen(stage: Stage) -> None:
    arguments: dict[str, object] = {"a": [1]}
    stage.start().save(ExchangeRow("/", "ex", "direct", arguments=arguments))
    arguments["b"] = 2

    assert stage.reopen().exchanges[0].arguments == {"a": [1]}


@pytest.mark.parametrize(
    "row",
    [
        ExchangeRow("/", "\ud800", "direct"),
        ExchangeRow("/", "ex", "direct", arguments={"a": object()}),
        QueueRow(2**63, "u", "/", "q"),
        PolicyRow("/", "p", "", "all", -(2**63) - 1, {}),
        PolicyRow("/", "p", "", "all", 0, {"n": 2**64}),
    ],
    ids=["text", "object", "number", "priority", "definition"],
)
def test_a_row_that_cannot_be_kept_is_refused_alone(stage: Stage, row: Row) -> None:
    store = stage.start()
    with pytest.raises(MalformedError):
        store.save(row)
    ticket = store.save(USER)

    assert ticket == 1
    assert rows_of(stage.reopen()) == [USER]


# -- bindings -------------------------------------------------------------------------------------


def test_bindings_differ_in_every_part_of_their_identity(stage: Stage) -> None:
    bindings = [
        BINDING,
        BindingRow("v", "ex", True, "q", "a.#", {"x-match": "any"}),
        BindingRow("/", "e2", True, "q", "a.#", {"x-match": "any"}),
        BindingRow("/", "ex", False, "q", "a.#", {"x-match": "any"}),
        BindingRow("/", "ex", True, "q2", "a.#", {"x-match": "any"}),
        BindingRow("/", "ex", True, "q", "b", {"x-match": "any"}),
        BindingRow("/", "ex", True, "q", "a.#", {"x-match": "all"}),
        BindingRow("/", "ex", True, "q", "a.#", {"x-match": "any", "n": 1}),
        BindingRow("/", "ex", True, "q", "a.#", {"x-match": "any", "n": True}),
    ]
    store = stage.start()
    for binding in bindings:
        store.save(binding)
    store.delete(BINDING)

    kept = stage.reopen().bindings

    assert len(kept) == len(bindings) - 1
    assert all(binding in kept for binding in bindings[1:])


def test_the_order_of_binding_arguments_does_not_matter(stage: Stage) -> None:
    one = BindingRow("/", "ex", True, "q", "", {"a": 1, "b": {"c": 1, "d": [{"e": 1, "f": 2}]}})
    two = BindingRow("/", "ex", True, "q", "", {"b": {"d": [{"f": 2, "e": 1}], "c": 1}, "a": 1})
    store = stage.start()
    store.save(one)
    store.save(two)
    assert stage.reopen().bindings == [one]

    stage.start().delete(two)
    assert stage.reopen().bindings == []


def test_deleting_a_queue_removes_its_bindings_only(stage: Stage) -> None:
    others = [
        BindingRow("/", "ex", False, "q", "to the exchange of that name"),
        BindingRow("/", "ex", True, "q2", ""),
        BindingRow("/", "q", True, "q2", "from the exchange of that name"),
        BindingRow("other", "ex", True, "q", ""),
    ]
    store = stage.start()
    rows: list[Row] = [QUEUE, BINDING, BindingRow("/", "e2", True, "q", "b"), *others]
    for row in rows:
        store.save(row)
    store.delete(QUEUE)

    assert rows_of(stage.reopen()) == others


def test_deleting_an_exchange_removes_bindings_at_both_ends(stage: Stage) -> None:
    others = [BindingRow("/", "e2", True, "ex", "the queue of that name")]
    store = stage.start()
    rows: list[Row] = [EXCHANGE, BINDING, BindingRow("/", "e2", False, "ex", ""), *others]
    for row in rows:
        store.save(row)
    store.delete(EXCHANGE)

    assert rows_of(stage.reopen()) == others


def test_deleting_a_user_removes_its_permissions(stage: Stage) -> None:
    store = stage.start()
    other = PermissionRow("bob", "/", "", "", "")
    hanging = (PERMISSION, PermissionRow("ann", "v2", "", "", ""), TOPICS, USER_LIMITS)
    for row in (USER, *hanging, other):
        store.save(row)
    store.delete(USER)

    assert rows_of(stage.reopen()) == [other]


def test_deleting_a_vhost_removes_everything_in_it(stage: Stage) -> None:
    other = ExchangeRow("other", "ex", "direct")
    store = stage.start()
    store.save_vhost("/")
    store.save_vhost("other")
    for row in (EXCHANGE, QUEUE, BINDING, POLICY, USER, PERMISSION, TOPIC, CURSOR, RETRY, other):
        store.save(row)
    store.delete_vhost("/")

    declarations = stage.reopen()

    assert declarations.vhosts == ["other"]
    assert rows_of(declarations) == [other, USER]
    assert declarations.next_queue_id == 8


# -- topics ---------------------------------------------------------------------------------------


def test_deleting_a_topic_removes_the_progress_of_its_readers(stage: Stage) -> None:
    other = [CursorRow("u-2", "g", "", 0, 0), RetryRow("u-2", "g", 0, 0, 1)]
    store = stage.start()
    for row in (TOPIC, CURSOR, RETRY, *other):
        store.save(row)
    store.delete(TOPIC)

    assert rows_of(stage.reopen()) == other


def test_a_late_deletion_of_an_older_topic_leaves_the_newer_one(stage: Stage) -> None:
    newer = TopicRow("/", "t", "u-9", 1, 6)
    store = stage.start()
    store.save(newer)
    store.delete(TOPIC)

    assert rows_of(stage.reopen()) == [newer]


def test_a_reader_is_forgotten_with_all_its_rows(stage: Stage) -> None:
    others = [CursorRow("u-1", "", "g", 0, 0), CursorRow("u-1", "h", "", 0, 0)]
    store = stage.start()
    for row in (CURSOR, RETRY, *others):
        store.save(row)
    store.delete_reader("u-1", "g", "")

    assert rows_of(stage.reopen()) == others


def test_numbers_of_topics_are_not_given_to_queues(stage: Stage) -> None:
    store = stage.start()
    store.save(TOPIC)
    store.delete(TOPIC)

    assert stage.reopen().next_queue_id == 4


# -- queue ids ------------------------------------------------------------------------------------


def test_queue_ids_are_never_given_again(stage: Stage) -> None:
    store = stage.start()
    store.save(QueueRow(41, "u", "/", "q"))
    store.save(QueueRow(12, "u", "/", "older"))
    store.delete(QueueRow(41, "u", "/", "q"))

    assert stage.reopen().next_queue_id == 42
    assert stage.reopen().next_queue_id == 42


def test_a_late_delete_does_not_touch_a_newer_queue_of_the_name(stage: Stage) -> None:
    newer = QueueRow(8, "u-8", "/", "q")
    store = stage.start()
    for row in (QUEUE, newer, BINDING):
        store.save(row)
    store.delete(QUEUE)

    assert rows_of(stage.reopen()) == [newer, BINDING]


def test_a_newer_queue_of_the_name_starts_without_bindings(stage: Stage) -> None:
    newer = QueueRow(8, "u-8", "/", "q")
    store = stage.start()
    for row in (QUEUE, BINDING, newer):
        store.save(row)

    assert rows_of(stage.reopen()) == [newer]


def test_saving_a_queue_again_keeps_its_bindings(stage: Stage) -> None:
    store = stage.start()
    for row in (QUEUE, BINDING, QUEUE):
        store.save(row)

    assert rows_of(stage.reopen()) == [QUEUE, BINDING]


# -- tickets --------------------------------------------------------------------------------------


def test_tickets_rise_and_are_all_committed_in_the_end(stage: Stage) -> None:
    store = stage.start()
    assert (store.issued, store.committed) == (0, 0)
    tickets = [
        store.save_vhost("/"),
        store.save(EXCHANGE),
        store.delete(EXCHANGE),
        store.delete_vhost("/"),
    ]
    assert tickets == sorted(set(tickets))
    assert store.issued == tickets[-1]
    stage.loop.wait_for_commit(tickets[-1])

    assert store.committed == tickets[-1]
    assert stage.loop.commits == sorted(set(stage.loop.commits))


def test_callbacks_are_only_made_through_call_soon(stage: Stage) -> None:
    ticket = stage.start().save(USER)
    stage.store.close()

    assert stage.loop.commits == []
    stage.loop.run()
    assert stage.loop.commits == [ticket]


def test_changes_are_made_in_their_order(stage: Stage) -> None:
    store = stage.start()
    for number in range(200):
        store.save(ExchangeRow("/", "ex", str(number)))
        store.delete(ExchangeRow("/", "ex", ""))
        store.save(ExchangeRow("/", "ex", f"{number} again"))

    assert [row.kind for row in stage.reopen().exchanges] == ["199 again"]


# -- opening and closing --------------------------------------------------------------------------


def test_a_store_goes_on_where_it_was(stage: Stage) -> None:
    stage.start().save(EXCHANGE)
    stage.restart().save(QUEUE)
    stage.restart().delete(EXCHANGE)

    assert rows_of(stage.reopen()) == [QUEUE]


def test_a_store_that_is_not_started_refuses_changes(stage: Stage) -> None:
    with pytest.raises(StoreError, match="not open"):
        stage.store.save(USER)
    assert stage.store.issued == 0


def test_a_closed_store_refuses_changes(stage: Stage) -> None:
    store = stage.start()
    store.close()

    with pytest.raises(StoreError, match="not open"):
        store.save(USER)
    with pytest.raises(StoreError, match="not open"):
        store.delete_vhost("/")
    assert stage.reopen() == Declarations()


def test_closing_twice_or_without_a_start_is_fine(stage: Stage) -> None:
    stage.store.close()
    stage.store.close()
    stage.restart()
    stage.store.close()
    stage.store.close()
