"""Interface of the backends that messages are read from: broker, MySQL, RocketMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from headrace.bulk.client import ReadableSource
from headrace.retry import RetryPolicy
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import ROCKETMQ, ReadOptions
from headrace.spark.task_plan import TaskRange

T = TypeVar("T")
AGAIN_SECONDS = 0.5
GAP_SECONDS = 15.0  # a transaction that is still open may hold ids below committed messages


class Backend(Protocol):
    def sources(
        self, time_ms: int | None = None, *, complete: bool = False
    ) -> dict[str, ReadableSource]:
        """The sources of the options by name; SparkError when one is missing. ``complete``: wait
        until everything that is committed now can be read, or say which gap prevents it."""

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        """The rows of a range: always the same for the same range."""

    def pin(self, position: StreamOffset) -> None:
        """Keep everything from there on for this query, until the next call or its end."""


@runtime_checkable
class PinnedBackend(Protocol):
    """A backend that stores pins and can list them."""

    def pinned(self, query: str) -> StreamOffset | None:
        """The position from which the sources, as they are now, are pinned for a query."""

    def unpin(self, query: str) -> None:
        """Remove the pins of a query."""


def retried(patience: float, work: Callable[[], T], away: type[Exception]) -> T:
    """The result of ``work``, tried again for ``patience`` seconds while it raises ``away``: the
    server may be restarting. It must be safe to repeat."""
    policy = RetryPolicy(
        deadline_s=patience, first_pause_s=AGAIN_SECONDS, max_pause_s=AGAIN_SECONDS, jitter=0.0
    )
    return policy.run(work, lambda error: isinstance(error, away))


def backend_of(options: ReadOptions) -> Backend:
    if options.scheme == "mysql":
        from headrace.spark.backends.mysql import MySqlBackend

        return MySqlBackend(options)
    if options.scheme in ROCKETMQ:
        from headrace.spark.backends.rocketmq import RocketMqBackend

        return RocketMqBackend(options)
    from headrace.spark.backends.broker import BrokerBackend

    return BrokerBackend(options)
