"""Tags and selectors applied to batches, in the tasks: Spark sees only what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import BrokerError
from headrace.model.selectors import EVERYTHING, SqlSelector, TagSelector
from headrace.spark.errors import BadOption
from headrace.spark.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Selection:
    """``needed`` are the columns to fetch, ``columns`` those to show."""

    needed: tuple[str, ...]
    columns: tuple[str, ...]
    keep: Callable[[pa.RecordBatch], pa.Array] | None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.keep is not None:
            batch = batch.filter(self.keep(batch))
        return batch if self.needed == self.columns else batch.select(list(self.columns))


def selection(options: ReadOptions) -> Selection:
    """What the options ask for; BadOption when the selector cannot be read."""
    columns = options.columns
    try:
        if options.tags is not None:
            return Selection(_with(columns, "offset", "tags"), columns, _by_tags(options.tags))
        if options.selector is not None:
            needed = _with(columns, "offset", "properties", "tags", "key")
            return Selection(needed, columns, _by_selector(options.selector))
    except BrokerError as error:
        raise BadOption(f"selector: {error}") from None
    return Selection(_with(columns, "offset"), columns, None)


def _with(columns: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return columns + tuple(name for name in more if name not in columns)


def _by_tags(expression: str) -> Callable[[pa.RecordBatch], pa.Array] | None:
    tags = TagSelector.parse(expression)
    if tags == EVERYTHING:
        return None
    wanted = pa.array(sorted(tags.tags), pa.string())
    return lambda batch: pc.is_in(batch.column("tags"), wanted)


def _by_selector(expression: str) -> Callable[[pa.RecordBatch], pa.Array]:
    """Conditions over the properties; TAGS and KEYS are the columns of those names."""
    selector = SqlSelector.parse(expression)

    def keep(batch: pa.RecordBatch) -> pa.Array:
        columns = (batch.column(name).to_pylist() for name in ("properties", "tags", "key"))
        return pa.array(
            [
                selector.matches({**dict(properties), **_named(tags, key)})
                for properties, tags, key in zip(*columns, strict=True)
            ],
            pa.bool_(),
        )

    return keep


def _named(tags: str | None, key: str | None) -> dict[str, str]:
    return {name: text for name, text in (("TAGS", tags), ("KEYS", key)) if text is not None}
