"""Where messages are read from: a broker, a MySQL database or a RocketMQ cluster, behind one
interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from headrace.model.epochs import Epochs
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import ReadOptions
from headrace.spark.task_plan import TaskRange


@dataclass(frozen=True, slots=True)
class Part:
    """One partition of a source, as far as it can be read now."""

    partition: int
    lane: str
    first: int  # the lowest offset that is there
    complete: int  # the lowest from which on nothing was removed
    end: int  # behind the last that is safe
    at_time: int | None = None  # the first stored at the asked time or later
    epochs: Epochs | None = None  # None: the source knows none


@dataclass(frozen=True, slots=True)
class ReadableSource:
    """A queue or topic; ``uuid`` tells it from a later one of the same name, unless it is empty."""

    name: str
    uuid: str
    parts: tuple[Part, ...]


class Backend(Protocol):
    def look(self, time_ms: int | None = None) -> dict[str, ReadableSource]:
        """The sources of the options; SparkError when one is missing."""

    def batches(self, part: TaskRange, uuid: str) -> Iterator[pa.RecordBatch]:
        """The rows of a range: always the same for the same range."""

    def pin(self, position: StreamOffset) -> None:
        """Hold everything from there on for this query, until the next call or its end."""


@runtime_checkable
class PinnedBackend(Protocol):
    """A backend whose pins last, and can be asked for."""

    def pinned(self, query: str) -> StreamOffset | None:
        """From where on the sources, as they are now, are held for a query."""

    def unpin(self, query: str) -> None:
        """Hold nothing for it any more."""


def backend_of(options: ReadOptions) -> Backend:
    if options.is_mysql:
        from headrace.spark.backends.mysql import MySqlBackend

        return MySqlBackend(options)
    if options.is_rocketmq:
        from headrace.spark.backends.rocketmq import RocketMqBackend

        return RocketMqBackend(options)
    from headrace.spark.backends.broker import BrokerBackend

    return BrokerBackend(options)
