"""The options of the data source, checked before anything is asked of a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches

from headrace.bulk.columns import COLUMNS
from headrace.spark.errors import BadOption
from headrace.urls import PORTS, parse_broker_url, split_hosts

DEFAULT_URL = "headrace://guest:guest@127.0.0.1:9090/"
EARLIEST, LATEST = -2, -1
ROWS_PER_TASK = 500_000
PIN_BYTES = 10 << 30
PATIENCE = 60.0
WRITABLE = ("body", "routing_key", "key", "tags", "priority", "message_id", "properties")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_READING = (
    "url",
    "topic",
    "queue",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxRowsPerTrigger",
    "rowsPerTask",
    "columns",
    "failOnDataLoss",
    "tags",
    "selector",
    "group",
    "pinBytes",
    "pushFilters",
)
ROCKETMQ = ("rocketmq", "rocketmqs")
_SCHEMES = (*PORTS, "mysql", *ROCKETMQ)
_WRITING = ("url", "topic", "exchange", "idempotencyKey")
_SPARKS_OWN = ("checkpointlocation", "path", "queryname")  # which it hands over to sinks

Positions = Mapping[str, Mapping[int, int]]  # by source, by partition


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where reading begins or ends: a word, positions, or a time."""

    word: int | None = None  # EARLIEST or LATEST
    positions: Positions = field(default_factory=dict)
    time_ms: int | None = None

    def asked(self, source: str) -> Mapping[int, int]:
        """The positions given for a source; those of a topic hold for all its brokers."""
        return self.positions.get(source) or self.positions.get(source.rpartition("@")[0], {})


@dataclass(frozen=True, slots=True)
class ReadOptions:
    url: str = field(repr=False)  # it holds a password
    kind: str  # "queue" or "topic"
    names: tuple[str, ...]
    start: OffsetLimit
    end: OffsetLimit
    columns: tuple[str, ...]
    max_rows: int | None = None
    rows_per_task: int = ROWS_PER_TASK
    fail_on_data_loss: bool = True
    tags: str | None = None
    selector: str | None = None
    group: str | None = None
    pin_bytes: int = PIN_BYTES
    push_filters: bool = False
    is_stream: bool = False

    @property
    def patience(self) -> float:
        """Seconds for which a stream waits for a broker that is not there."""
        return PATIENCE if self.is_stream else 0.0

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    url: str = field(repr=False)
    topic: str | None = None
    exchange: str | None = None
    idempotency_key: str | None = None
    patience: float = 0.0


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """For reading, batch and stream."""
    options = _known(given, _READING)
    kinds = [kind for kind in ("topic", "queue") if options.get(kind)]
    if len(kinds) != 1:
        raise BadOption("give one of the options 'topic' and 'queue', e.g. .option('queue', 'q')")
    kind = kinds[0]
    names = tuple(name.strip() for name in options[kind].split(",") if name.strip())
    if not names or len(set(names)) != len(names):
        raise BadOption(
            f"{kind}: expected different names, separated by commas, got {options[kind]!r}"
        )
    if options.get("tags") and options.get("selector"):
        raise BadOption("give 'tags' or 'selector', not both")
    url, scheme = _url(options)
    if kind == "queue" and scheme not in PORTS:
        raise BadOption(f"queues are in brokers: {scheme}:// has topics only")
    return ReadOptions(
        url=url,
        kind=kind,
        names=names,
        start=_limit(options, "starting", EARLIEST, names),
        end=_limit(options, "ending", LATEST, names),
        columns=chosen(options.get("columns", "")),
        max_rows=_number(options, "maxrowspertrigger"),
        rows_per_task=_number(options, "rowspertask") or ROWS_PER_TASK,
        fail_on_data_loss=_flag(options, "failondataloss", True),
        tags=options.get("tags"),
        selector=options.get("selector"),
        group=options.get("group"),
        pin_bytes=_number(options, "pinbytes") or PIN_BYTES,
        push_filters=_flag(options, "pushfilters", False),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """For writing, batch and stream."""
    options = _known(given, _WRITING, _SPARKS_OWN)
    if bool(options.get("topic")) == bool("exchange" in options):
        raise BadOption("give one of the options 'topic' and 'exchange' to write to")
    url, scheme = _url(options)
    if scheme in ROCKETMQ:
        raise BadOption("rocketmq:// can only be read; write with a Producer of headrace.rocketmq")
    if "exchange" in options and scheme == "mysql":
        raise BadOption("exchanges are in brokers: mysql:// has topics only")
    return WriteOptions(
        url=url,
        topic=options.get("topic"),
        exchange=options.get("exchange"),
        idempotency_key=options.get("idempotencykey"),
    )


def chosen(text: str) -> tuple[str, ...]:
    """The columns named in the option ``columns``; all of them when it is empty."""
    names = tuple(part.strip() for part in text.split(",") if part.strip()) or tuple(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            raise BadOption(
                f"columns: unknown column '{name}'; expected one of {', '.join(COLUMNS)}"
            )
    if len(set(names)) != len(names):
        raise BadOption("columns: a column is named twice")
    return names


def ddl(names: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)


def _known(
    given: Mapping[str, str], allowed: Sequence[str], more: Sequence[str] = ()
) -> dict[str, str]:
    """Spark hands the keys over in lower case."""
    options = {key.lower(): value for key, value in given.items()}
    known = {name.lower(): name for name in allowed}
    for key in options:
        if key not in known and key not in more:
            close = get_close_matches(key, known, n=1)
            hint = f", did you mean '{known[close[0]]}'?" if close else ";"
            raise BadOption(f"unknown option '{key}'{hint} expected one of {', '.join(allowed)}")
    return options


def _url(options: Mapping[str, str]) -> tuple[str, str]:
    """With its scheme."""
    url = options.get("url", DEFAULT_URL)
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise BadOption(f"url: expected one of {', '.join(f'{one}://' for one in _SCHEMES)}")
    try:
        if scheme in PORTS:
            parse_broker_url(url)
        elif scheme == "mysql":
            split_hosts(url, 3306)
    except ValueError as error:
        raise BadOption(f"url: {error}") from None
    return url, scheme


def _number(options: Mapping[str, str], key: str) -> int | None:
    text = options.get(key)
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise BadOption(f"{key}: expected a positive integer, got {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], key: str, default: bool) -> bool:
    text = options.get(key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{key}: expected true or false, got {text!r}")
    return text.lower() == "true"


def _limit(
    options: Mapping[str, str], which: str, default: int, names: tuple[str, ...]
) -> OffsetLimit:
    offsets = options.get(f"{which}offsets")
    moment = options.get(f"{which}timestamp")
    if offsets is not None and moment is not None:
        raise BadOption(f"give {which}Offsets or {which}Timestamp, not both")
    if moment is not None:
        # Everything is stored after 1970, and 0 means no time to a broker.
        return OffsetLimit(time_ms=max(1, _milliseconds(moment, f"{which}Timestamp")))
    if offsets is None:
        return OffsetLimit(word=default)
    word = {"earliest": EARLIEST, "latest": LATEST}.get(offsets.strip().lower())
    if word is not None:
        return OffsetLimit(word=word)
    return OffsetLimit(positions=_positions(offsets, f"{which}Offsets", names))


def _positions(text: str, option: str, names: tuple[str, ...]) -> Positions:
    shape = 'earliest, latest, or JSON such as {"orders": {"0": 23}}'
    try:
        value = json.loads(text)
        found = {
            source: {int(part): int(offset) for part, offset in parts.items()}
            for source, parts in value.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise BadOption(f"{option}: expected {shape}, got {text!r}") from None
    for source, parts in found.items():
        if source not in names and source.rpartition("@")[0] not in names:
            raise BadOption(f"{option}: '{source}' is not among the sources")
        if any(part < 0 or offset < EARLIEST for part, offset in parts.items()):
            raise BadOption(f"{option}: partitions count from 0, offsets from -2 on")
    return found


def _milliseconds(text: str, option: str) -> int:
    """Milliseconds since 1970, or an ISO date and time (UTC unless it says otherwise)."""
    if text.strip().isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadOption(
            f"{option}: expected milliseconds since 1970, or a time such as "
            f"2026-01-31T12:00:00, got {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)  # a float would be one off at times
