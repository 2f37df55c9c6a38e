"""The cases: what is published, to what, and how it is consumed. Data only."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

BACKLOG = 20_000  # messages a publisher may be ahead of its consumers
BACKLOG_BYTES = 64 << 20
WRITE_BYTES = 65_536
WINDOW = 1000
PREFETCH = 250
GROUPS = ("speed", "durable", "scale", "memory")


class CaseKind(enum.Enum):
    """Which procedure measures a case."""

    FLOW = "flow"
    LATENCY = "latency"
    BINDINGS = "bindings"
    MEMORY = "memory"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the table. Zero means: not used, or no limit."""

    name: str
    about: str
    group: str = "speed"
    kind: CaseKind = CaseKind.FLOW
    body: int = 100
    celery: bool = False
    varied: bool = False
    pairs: int = 1
    queues: int = 1
    exchange: str = ""
    consumers: int = 1
    manual_ack: bool = False
    prefetch: int = 0
    channel: int = 1
    durable: bool = False
    window: int = 0
    per_write: int = 0
    limit: int = 0
    distinct_keys: int = 0
    settles: bool = True
    standing: int = 0
    others: int = 0
    bounded: bool = True

    @property
    def copies(self) -> int:
        """Deliveries per publish."""
        return self.queues if self.exchange == "fanout" else 1

    @property
    def backlog(self) -> int:
        """Deliveries a publisher may be ahead: bounded, or memory would be what is measured."""
        if not self.bounded:
            return 1 << 62
        return max(100, min(BACKLOG, BACKLOG_BYTES // max(1, self.body)) // self.pairs)


_BASE = Case(name="", about="")
_ACKED = replace(_BASE, manual_ack=True, prefetch=PREFETCH)


def _case(base: Case, name: str, about: str, **changes: Any) -> Case:  # noqa: ANN401 - fields
    return replace(base, name=name, about=about, **changes)


def _speed() -> list[Case]:
    ten = "ten queues, key changes with every message, consumer on another channel number"
    tasks = replace(_ACKED, celery=True, prefetch=100)
    fan = replace(_BASE, exchange="fanout", queues=10)
    unbounded = replace(_ACKED, bounded=False, limit=3_000_000)
    bindings = replace(_BASE, kind=CaseKind.BINDINGS, exchange="topic", consumers=0)
    return [
        _case(_BASE, "publish", "publish only", consumers=0, limit=3_000_000),
        _case(_BASE, "auto-ack", "publish, consume with automatic ack"),
        _case(_ACKED, "manual-ack", "single acks, prefetch 250"),
        _case(_BASE, "varied", "auto-ack, every message of another size and id", varied=True),
        _case(
            _ACKED, "varied-ack", "manual-ack, every message of another size and id", varied=True
        ),
        _case(_BASE, "ten-queues", f"{ten}, auto ack", queues=10, channel=7),
        _case(
            replace(_ACKED, queues=10, channel=7, per_write=1),
            "ten-queues-ack",
            f"{ten}, single acks, prefetch 250, one message per write",
        ),
        _case(_BASE, "one-per-write", "auto ack, one message per write", per_write=1),
        _case(tasks, "celery", "Celery's task messages, single acks, prefetch 100"),
        _case(
            replace(_BASE, pairs=250, per_write=10),
            "many-connections",
            "250 publishers, 250 queues, 250 consumers, auto ack, ten messages per write",
        ),
        _case(fan, "fanout", "fanout exchange to ten queues, auto ack; deliveries are counted"),
        _case(_BASE, "size-12", "auto ack, 12 B", body=12),
        _case(_BASE, "size-1k", "auto ack, 1 KiB", body=1024),
        _case(_BASE, "size-16k", "auto ack, 16 KiB", body=16_384),
        _case(_BASE, "three-consumers", "one queue, three consumers, auto ack", consumers=3),
        _case(
            unbounded,
            "flood",
            "as manual-ack, but the publisher is held back by nothing but the broker",
        ),
        _case(_BASE, "latency", "2,000 messages/s, auto ack", kind=CaseKind.LATENCY),
        _case(
            replace(bindings, distinct_keys=100_000, limit=1_000_000),
            "topic-bindings",
            "10,000 topic bindings against 10, 100,000 distinct keys, publish only",
        ),
    ]


def _durable() -> list[Case]:
    base = replace(_BASE, group="durable", durable=True, consumers=0, window=WINDOW)
    acked = replace(base, consumers=1, manual_ack=True, prefetch=PREFETCH)
    fan = replace(base, exchange="fanout", queues=10, limit=500_000)
    return [
        _case(base, "persistent-confirm", "confirms, window 1000", limit=2_000_000),
        _case(acked, "persistent-roundtrip", "confirms, window 1000, single acks, prefetch 250"),
        _case(base, "persistent-window-1", "each publish waits for its confirm", window=1),
        _case(
            fan,
            "fanout-durable",
            "fanout exchange to ten durable queues, confirms, window 1000; publishes are counted",
        ),
        _case(
            replace(acked, celery=True, window=0, prefetch=100),
            "celery-persistent",
            "Celery's task messages, no confirms (its default), single acks, prefetch 100",
        ),
    ]


def _scale() -> list[Case]:
    """What a message costs when there is a lot besides: compare the pairs, not the brokers."""
    base = replace(_ACKED, group="scale", durable=True, window=WINDOW)
    flow = "persistent, confirms, single acks"
    return [
        _case(base, "depth-10k", f"{flow}; 10,000 waiting", standing=10_000),
        _case(base, "depth-1m", f"{flow}; 1,000,000 waiting", standing=1_000_000),
        _case(base, "queues-10", f"{flow}; 10 other durable queues", others=10),
        _case(base, "queues-10k", f"{flow}; 10,000 other durable queues", others=10_000),
    ]


def _memory() -> list[Case]:
    base = replace(_BASE, group="memory", kind=CaseKind.MEMORY, limit=1_000_000)
    return [
        _case(base, "idle", "fresh start, nothing connected", kind=CaseKind.IDLE),
        _case(base, "million-ready", "1,000,000 x 100 B waiting in one queue", consumers=0),
        _case(
            replace(base, manual_ack=True, settles=False),
            "million-unacked",
            "1,000,000 x 100 B delivered on one channel, none acknowledged",
        ),
        _case(
            replace(base, exchange="topic", distinct_keys=1_000_000),
            "distinct-keys",
            "1,000,000 distinct keys through a topic exchange (binding #), consumed",
        ),
    ]


CASES: dict[str, Case] = {case.name: case for case in _speed() + _durable() + _scale() + _memory()}


def select(names: tuple[str, ...]) -> list[Case]:
    """Cases by name or group (`sizes` is a group too), in the order of the table; none = all.

    Raises KeyError with the first unknown name.
    """
    if not names or "all" in names:
        return list(CASES.values())
    wanted: set[str] = set()
    for name in names:
        members = {c.name for c in CASES.values() if name in (c.name, c.group)}
        if name == "sizes":
            members = {c for c in CASES if c.startswith("size-")}
        if not members:
            raise KeyError(name)
        wanted |= members
    return [case for case in CASES.values() if case.name in wanted]
