"""Metadata in memory: the contract without a disk. Deleting costs a walk over the bindings."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import StoreError
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import (
    BindingRow,
    CursorRow,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    PinRow,
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
from headrace.store.sqlite.statements import (
    IDENTITY,
    Kept,
    R,
    Values,
    make_row,
    read_text,
    row_values,
)
from headrace.wire.amqp.values import utf8

_Rows = dict[tuple[Kept, ...], Values]


class MemoryMetadata:
    """Every change is committed at once. ``load()`` may be called at any time.

    ``catalogue`` is what was declared before, say by the store a restarted broker had.
    """

    def __init__(self, catalogue: Declarations | None = None) -> None:
        self.committed = 0
        self.issued = 0
        self._open = False
        self._vhosts: set[bytes] = set()
        self._rows: dict[type[Row], _Rows] = {kind: {} for kind in IDENTITY}
        self._highest_queue_id = 0
        if catalogue is not None:
            self._fill(catalogue)

    def load(self) -> Declarations:
        return Declarations(
            vhosts=[read_text(name) for name in sorted(self._vhosts)],
            exchanges=self._all(ExchangeRow),
            queues=self._all(QueueRow),
            bindings=self._all(BindingRow),
            topics=self._all(TopicRow),
            parameters=self._all(ParameterRow),
            cursors=self._all(CursorRow),
            retries=self._all(RetryRow),
            pins=self._all(PinRow),
            policies=self._all(PolicyRow),
            users=self._all(UserRow),
            secrets=self._all(SecretRow),
            permissions=self._all(PermissionRow),
            topic_permissions=self._all(TopicPermissionRow),
            user_limits=self._all(UserLimitsRow),
            vhost_limits=self._all(VhostLimitsRow),
            next_queue_id=self._highest_queue_id + 1,
        )

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None] = lambda full: None,
    ) -> None:
        self._call_soon = call_soon
        self._on_commit = on_commit
        self._open = True

    def save(self, row: Row) -> int:
        values = row_values(row)
        self._check_open()
        self._save(type(row), values)
        return self._commit()

    def delete(self, row: Row) -> int:
        values = row_values(row)
        self._check_open()
        self._delete(type(row), values)
        return self._commit()

    def delete_reader(self, topic: str, reader_group: str, token: str) -> int:
        uuid, group = utf8(topic), utf8(reader_group)
        self._check_open()
        self._remove(CursorRow, topic=uuid, reader_group=group, token=utf8(token))
        self._remove(RetryRow, topic=uuid, reader_group=group)
        return self._commit()

    def save_vhost(self, name: str) -> int:
        kept = utf8(name)
        self._check_open()
        self._vhosts.add(kept)
        return self._commit()

    def delete_vhost(self, name: str) -> int:
        kept = utf8(name)
        self._check_open()
        self._vhosts.discard(kept)
        for topic in [one for one in self._rows[TopicRow].values() if one["vhost"] == kept]:
            self._remove_readers(topic["uuid"])
        for kind in IDENTITY:
            self._remove(kind, vhost=kept)
        return self._commit()

    def close(self) -> None:
        self._open = False

    # -- inside -----------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError("the metadata store is not open for changes")

    def _commit(self) -> int:
        self.issued += 1
        ticket = self.committed = self.issued
        self._call_soon(lambda: self._on_commit(ticket))
        return ticket

    def _save(self, kind: type[Row], values: Values) -> None:
        key = _key(kind, values)
        if kind is QueueRow:
            before = self._rows[kind].get(key)
            if before is not None and before["id"] != values["id"]:
                self._remove_bindings_of(kind, values)  # another queue: it starts without any
            self._highest_queue_id = max(self._highest_queue_id, int(values["id"]))
        elif kind is TopicRow:
            self._highest_queue_id = max(self._highest_queue_id, int(values["highest"]))
        self._rows[kind][key] = values

    def _delete(self, kind: type[Row], values: Values) -> None:
        found = self._rows[kind].get(_key(kind, values))
        if found is not None and kind is QueueRow and found["id"] != values["id"]:
            return  # a late word about an older queue of this name
        if kind is TopicRow:
            self._remove_readers(values["uuid"])
            if found is not None and found["uuid"] != values["uuid"]:
                return
        self._rows[kind].pop(_key(kind, values), None)
        if kind is UserRow:
            for hanging in (PermissionRow, TopicPermissionRow, UserLimitsRow, SecretRow):
                self._remove(hanging, user=values["name"])
        elif kind is ExchangeRow or (kind is QueueRow and found is not None):
            self._remove_bindings_of(kind, values)

    def _remove_bindings_of(self, kind: type[Row], values: Values) -> None:
        vhost, name = values["vhost"], values["name"]
        to_queue = int(kind is QueueRow)
        self._remove(BindingRow, vhost=vhost, to_queue=to_queue, destination=name)
        if kind is ExchangeRow:
            self._remove(BindingRow, vhost=vhost, source=name)

    def _remove_readers(self, uuid: Kept) -> None:
        self._remove(CursorRow, topic=uuid)
        self._remove(RetryRow, topic=uuid)

    def _remove(self, kind: type[Row], **wanted: Kept) -> None:
        rows = self._rows[kind]
        for key in [key for key, row in rows.items() if wanted.items() <= row.items()]:
            del rows[key]

    def _all(self, kind: type[R]) -> list[R]:
        # The oldest queue first, everything else by what identifies it.
        order = ("id", *IDENTITY[kind]) if kind is QueueRow else IDENTITY[kind]
        rows = sorted(
            self._rows[kind].values(), key=lambda values: [values[name] for name in order]
        )
        return [make_row(kind, values) for values in rows]

    def _fill(self, catalogue: Declarations) -> None:
        self._vhosts.update(map(utf8, catalogue.vhosts))
        rows: list[Row] = [
            *catalogue.exchanges,
            *catalogue.queues,
            *catalogue.bindings,
            *catalogue.topics,
            *catalogue.parameters,
            *catalogue.cursors,
            *catalogue.retries,
            *catalogue.pins,
            *catalogue.policies,
            *catalogue.users,
            *catalogue.secrets,
            *catalogue.permissions,
            *catalogue.topic_permissions,
            *catalogue.user_limits,
            *catalogue.vhost_limits,
        ]
        for row in rows:
            self._save(type(row), row_values(row))
        self._highest_queue_id = max(self._highest_queue_id, catalogue.next_queue_id - 1)


def _key(kind: type[Row], values: Values) -> tuple[Kept, ...]:
    return tuple(values[name] for name in IDENTITY[kind])
