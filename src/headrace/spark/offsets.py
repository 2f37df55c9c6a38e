"""The offsets of a stream, as they stand in Spark's checkpoint. Pure.

{"version": 1, "query": "...",
 "sources": {"orders": {"uuid": "...", "next": {"0": 17}, "epochs": {"0": 0}}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.spark.errors import SourceChanged

VERSION = 1


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far one queue or topic is read; one created again has another ``uuid``."""

    uuid: str
    next: Mapping[int, int] = field(default_factory=dict)  # by partition
    # In which epoch of the log each was seen. Older checkpoints and other sources have none.
    epochs: Mapping[int, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream is. ``query`` names its pin in the broker."""

    query: str
    sources: Mapping[str, SourceOffset]

    def to_json(self) -> dict[str, object]:
        return {
            "version": VERSION,
            "query": self.query,
            "sources": {
                name: {
                    "uuid": one.uuid,
                    "next": {str(part): offset for part, offset in sorted(one.next.items())},
                    "epochs": {str(part): epoch for part, epoch in sorted(one.epochs.items())},
                }
                for name, one in sorted(self.sources.items())
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str) -> StreamOffset:
        try:
            if isinstance(value, str):
                value = dict(json.loads(value))
            if value["version"] != VERSION:
                raise KeyError("version")
            return cls(
                str(value["query"]),
                {
                    name: SourceOffset(
                        one["uuid"],
                        {int(part): int(at) for part, at in one["next"].items()},
                        {int(part): int(at) for part, at in one.get("epochs", {}).items()},
                    )
                    for name, one in value["sources"].items()
                },
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            raise SourceChanged(
                "the checkpoint is of another source or version: start with a new checkpoint"
            ) from None
