"""Metadata stores under random changes: after each restart they hold what a simple model holds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.store.api.metadata import Declarations, Metadata
from headrace.store.api.rows import (
    BindingRow,
    ExchangeRow,
    PermissionRow,
    PolicyRow,
    QueueRow,
    Row,
    SecretRow,
    TopicPermissionRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)
from headrace.store.sqlite import SqliteMetadata
from support.callback_queue import Handover
from support.example_counts import examples
from support.memory_metadata import MemoryMetadata

# Few names, so that changes meet; odd ones, so that nothing depends on what a name looks like.
names = st.sampled_from(["", "a", "b'\"", "\udcff", "ü"])
tables = st.dictionaries(
    names, st.one_of(st.integers(-5, 5), st.booleans(), names, st.lists(names, max_size=2))
)
rows: st.SearchStrategy[Row] = st.one_of(
    st.builds(ExchangeRow, names, names, names, st.booleans(), st.booleans(), tables),
    st.builds(QueueRow, st.integers(1, 4), names, names, names, st.booleans(), tables),
    st.builds(BindingRow, names, names, st.booleans(), names, names, tables),
    st.builds(PolicyRow, names, names, names, names, st.integers(-9, 9), tables),
    st.builds(UserRow, names, names, st.lists(names, max_size=2).map(tuple)),
    st.builds(SecretRow, names, names),
    st.builds(PermissionRow, names, names, names, names, names),
    st.builds(TopicPermissionRow, names, names, names, names, names),
    st.builds(UserLimitsRow, names, st.dictionaries(names, st.integers(-5, 5))),
    st.builds(VhostLimitsRow, names, st.dictionaries(names, st.integers(-5, 5))),
)
changes = st.one_of(
    st.tuples(st.sampled_from(["save", "save", "delete"]), rows),
    st.tuples(st.sampled_from(["save_vhost", "delete_vhost"]), names),
    st.just(("restart", None)),
)


@dataclass
class Model:
    """The contract, in the shortest words: lists of rows, searched from end to end."""

    vhosts: set[str] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    next_queue_id: int = 1

    def save(self, row: Row) -> None:
        for old in [old for old in self.rows if is_same(old, row)]:
            if isinstance(old, QueueRow) and isinstance(row, QueueRow) and old.id != row.id:
                self.delete(old)
            else:
                self.rows.remove(old)
        self.rows.append(row)
        if isinstance(row, QueueRow):
            self.next_queue_id = max(self.next_queue_id, row.id + 1)

    def delete(self, row: Row) -> None:
        if isinstance(row, QueueRow) and not any(
            is_same(old, row) and isinstance(old, QueueRow) and old.id == row.id
            for old in self.rows
        ):
            return
        self.rows = [old for old in self.rows if not is_same(old, row) and not hangs_on(old, row)]

    def save_vhost(self, name: str) -> None:
        self.vhosts.add(name)

    def delete_vhost(self, name: str) -> None:
        self.vhosts.discard(name)
        self.rows = [row for row in self.rows if getattr(row, "vhost", None) != name]


def is_same(one: Row, two: Row) -> bool:
    return type(one) is type(two) and identity(one) == identity(two)


def identity(row: Row) -> object:
    match row:
        case UserRow():
            return row.name
        case PermissionRow():
            return row.user, row.vhost
        case TopicPermissionRow():
            return row.user, row.vhost, row.exchange
        case UserLimitsRow() | SecretRow():
            return row.user
        case VhostLimitsRow():
            return row.vhost
        case BindingRow():
            return repr((row.vhost, row.source, row.to_queue, row.destination, row.key)) + repr(
                sorted(row.arguments.items())
            )
        case _:
            return row.vhost, row.name


def hangs_on(row: Row, owner: Row) -> bool:
    """Whether a row goes when its owner goes."""
    match row, owner:
        case BindingRow(), ExchangeRow():
            ends = [row.source] if row.to_queue else [row.source, row.destination]
            return row.vhost == owner.vhost and owner.name in ends
        case BindingRow(), QueueRow():
            to = (row.vhost, row.destination)
            return row.to_queue and to == (owner.vhost, owner.name)
        case PermissionRow() | TopicPermissionRow() | UserLimitsRow() | SecretRow(), UserRow():
            return row.user == owner.name
    return False


def image(vhosts: object, rows: list[Row], next_queue_id: int) -> object:
    """Comparable whatever the order of the rows; 1 and True are not the same here."""
    return (
        vhosts,
        sorted(repr((type(row), identity(row), spelled(row))) for row in rows),
        (next_queue_id),
    )


def spelled(row: Row) -> str:
    if isinstance(row, BindingRow):
        return ""  # all of it is identity
    if isinstance(row, UserRow):
        return repr((row, row.password_hash))  # which its repr hides
    return repr(row)


def image_of(catalogue: Declarations) -> object:
    rows: list[Row] = [
        *catalogue.exchanges,
        *catalogue.queues,
        *catalogue.bindings,
        *catalogue.policies,
        *catalogue.users,
        *catalogue.secrets,
        *catalogue.permissions,
        *catalogue.topic_permissions,
        *catalogue.user_limits,
        *catalogue.vhost_limits,
    ]
    return image(set(catalogue.vhosts), rows, catalogue.next_queue_id)


def started(store: Metadata) -> Metadata:
    Handover().start(store)
    return store


@settings(max_examples=examples(60))
@given(st.lists(changes, max_size=40))
def test_stores_hold_what_the_model_holds(sequence: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory, model = Path(name), Model()
        memory, sqlite = started(MemoryMetadata()), started(SqliteMetadata(directory))
        for action, subject in [*sequence, ("restart", None)]:
            if action != "restart":
                for target in (model, memory, sqlite):
                    getattr(target, action)(subject)
                continue
            sqlite.close()
            reopened = SqliteMetadata(directory)
            found = reopened.load()
            sqlite = started(reopened)

            assert image_of(found) == image(model.vhosts, model.rows, model.next_queue_id)
            assert found == memory.load()
            memory = started(MemoryMetadata(found))
        sqlite.close()
