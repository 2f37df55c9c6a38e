"""A pipeline as its file describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.spark.errors import BadPipeline

BAD_RECORDS = "bad-records"  # the name of the query that keeps them


@dataclass(frozen=True, slots=True)
class Watermark:
    """Rows that come later than ``delay`` after the newest time in ``column`` are too late."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True)
class Decode:
    """What the bodies are: json, avro, text or raw."""

    format: str = "raw"
    schema: str | None = None  # columns as in CREATE TABLE for json, JSON for avro
    framing: str = "plain"  # of avro: plain, or confluent with five bytes in front

    @property
    def can_fail(self) -> bool:
        return self.format != "raw"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A queue or topic that is read; its name is that of the view."""

    name: str
    options: Mapping[str, str] = field(repr=False)  # of the data source; the URL has a password
    decode: Decode
    watermark: Watermark | None
    line: int


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table that is read whole, to join with."""

    name: str
    format: str
    path: str
    schema: str | None
    options: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A view made of earlier ones: by SQL, or by a Python function of the previous one."""

    name: str
    sql: str | None
    python: str | None
    watermark: Watermark | None
    line: int
    sql_line: int  # where the text of the SQL begins


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """Where the rows of a view go."""

    name: str
    type: str
    view: str
    mode: str  # append, update or complete
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    settings: Mapping[str, str] = field(repr=False)  # path, url, table, exchange, topic
    line: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    file: Path
    every: str
    checkpoint: str | None
    bad_records: str | None
    sources: tuple[SourceSpec, ...]
    tables: tuple[TableSpec, ...]
    steps: tuple[StepSpec, ...]
    sinks: tuple[SinkSpec, ...]

    @property
    def directory(self) -> Path:
        """Relative paths and modules are looked for here."""
        return self.file.parent

    def error(self, line: int, text: str) -> BadPipeline:
        return BadPipeline(f"{self.file}:{line}: {text}")

    @property
    def can_fail(self) -> bool:
        """Whether there can be records that do not decode."""
        return any(source.decode.can_fail for source in self.sources)
