"""The metadata store: what is declared, as rows; changes are committed in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Protocol

from headrace.store.api import rows
from headrace.store.api.rows import Row

NOT_THERE = "that is not there"


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that is not served and kept for a repair; without values: rows that are missing."""

    table: str
    reason: str
    values: tuple[object, ...] = field(default=(), repr=False)  # which may be secret

    @property
    def is_dangling(self) -> bool:
        """The row itself is good; what it refers to is missing."""
        return self.reason.endswith(NOT_THERE)

    def __str__(self) -> str:
        return f"table {self.table}: {self.reason}"


@dataclass(slots=True)
class Declarations:
    """Everything declared, as read at start."""

    vhosts: list[str] = field(default_factory=list)
    exchanges: list[rows.ExchangeRow] = field(default_factory=list)
    queues: list[rows.QueueRow] = field(default_factory=list)
    bindings: list[rows.BindingRow] = field(default_factory=list)
    topics: list[rows.TopicRow] = field(default_factory=list)
    parameters: list[rows.ParameterRow] = field(default_factory=list)
    cursors: list[rows.CursorRow] = field(default_factory=list)
    retries: list[rows.RetryRow] = field(default_factory=list)
    pins: list[rows.PinRow] = field(default_factory=list)
    policies: list[rows.PolicyRow] = field(default_factory=list)
    users: list[rows.UserRow] = field(default_factory=list)
    secrets: list[rows.SecretRow] = field(default_factory=list)
    permissions: list[rows.PermissionRow] = field(default_factory=list)
    topic_permissions: list[rows.TopicPermissionRow] = field(default_factory=list)
    user_limits: list[rows.UserLimitsRow] = field(default_factory=list)
    vhost_limits: list[rows.VhostLimitsRow] = field(default_factory=list)
    next_queue_id: int = 1
    generation: int = field(default=0, compare=False)  # raised with every commit
    damaged: list[DamagedRow] = field(default_factory=list)
    orphaned: set[int] = field(default_factory=set)  # numbers whose messages wait for a repair

    def tables(self) -> dict[str, list[Row]]:
        """The lists of rows by the names of their tables."""
        lists = {one.name: getattr(self, one.name) for one in fields(self)}
        others = ("vhosts", "next_queue_id", "generation", "damaged", "orphaned")
        return {name: its for name, its in lists.items() if name not in others}

    def orphans(self, numbers: Iterable[int]) -> set[int]:
        """Which numbers of the log are neither declared nor deleted for certain. Deleted are
        those which a whole catalogue has given before and does not know any more."""
        unknown = set(numbers) - set(self.destinations())
        if self.damaged:
            return unknown
        return {one for one in unknown if one >= self.next_queue_id or one in self.orphaned}

    def destinations(self) -> dict[int, tuple[str, str]]:
        """Every number of the log that something declared uses: its vhost and name."""
        queues = {queue.id: (queue.vhost, queue.name) for queue in self.queues}
        tracks = {
            int(str(number)): (topic.vhost, f"topic.{topic.name}/{track}")
            for topic in self.topics
            for track, number in topic.numbers.items()
        }
        return queues | tracks


class Metadata(Protocol):
    """Declarations. Changes are queued, committed in batches in their order, each batch atomic.

    Every change returns a rising metadata version. ``committed`` is the highest one on disk. A
    full disk is waited out, and ``on_full`` called when it begins and ends. A commit that fails
    otherwise is fatal: nothing later is committed, and ``on_failure`` is called once.
    """

    committed: int
    issued: int  # the highest version given

    def load(self) -> Declarations: ...

    def start(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        on_commit: Callable[[int], None],
        on_failure: Callable[[Exception], None],
        on_full: Callable[[bool], None] = ...,
    ) -> None:
        """Begin to accept changes. The callbacks are made through ``call_soon``."""

    def save(self, row: Row) -> int:
        """Insert, or replace the row of the same identity."""

    def delete(self, row: Row) -> int:
        """Remove the row of the same identity; deleting a queue or an exchange removes its
        bindings, deleting a user its permissions and limits, deleting a topic the progress of its
        readers. Nothing there is no error."""

    def delete_reader(self, topic: str, reader_group: str, token: str) -> int:
        """Remove all cursors and retries of a group, or of a consumer on its own."""

    def save_vhost(self, name: str) -> int: ...

    def delete_vhost(self, name: str) -> int:
        """Remove the vhost with everything in it."""

    def close(self) -> None:
        """Commit what is queued, then stop. Idempotent."""
