"""The cases: what is published, to what, and how it is consumed. Data only."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

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


def _speed() -> list[Case]:
    ten = "ten queues, key changes with every message, consumer on another channel number"
    return [
        Case(name="publish", about="publish only", consumers=0, limit=3_000_000),
        Case(name="auto-ack", about="publish, consume with automatic ack"),
        Case(name="manual-ack", about="single acks, prefetch 250", manual_ack=True, prefetch=250),
        Case(name="varied", about="auto-ack, every message of another size and id", varied=True),
        Case(
            name="varied-ack",
            about="manual-ack, every message of another size and id",
            varied=True,
            manual_ack=True,
            prefetch=PREFETCH,
        ),
        Case(name="ten-queues", about=f"{ten}, auto ack", queues=10, channel=7),
        Case(
            name="ten-queues-ack",
            about=f"{ten}, single acks, prefetch 250, one message per write",
            queues=10,
            channel=7,
            manual_ack=True,
            prefetch=PREFETCH,
            per_write=1,
        ),
        Case(name="one-per-write", about="auto ack, one message per write", per_write=1),
        Case(
            name="celery",
            about="Celery's task messages, single acks, prefetch 100",
            celery=True,
            manual_ack=True,
            prefetch=100,
        ),
        Case(
            name="many-connections",
            about="250 publishers, 250 queues, 250 consumers, auto ack, ten messages per write",
            pairs=250,
            per_write=10,
        ),
        Case(
            name="fanout",
            about="fanout exchange to ten queues, auto ack; deliveries are counted",
            exchange="fanout",
            queues=10,
        ),
        Case(name="size-12", about="auto ack, 12 B", body=12),
        Case(name="size-1k", about="auto ack, 1 KiB", body=1024),
        Case(name="size-16k", about="auto ack, 16 KiB", body=16_384),
        Case(name="three-consumers", about="one queue, three consumers, auto ack", consumers=3),
        Case(
            name="flood",
            about="as manual-ack, but the publisher is held back by nothing but the broker",
            manual_ack=True,
            prefetch=PREFETCH,
            bounded=False,
            limit=3_000_000,
        ),
        Case(name="latency", about="2,000 messages/s, auto ack", kind=CaseKind.LATENCY),
        Case(
            name="topic-bindings",
            about="10,000 topic bindings against 10, 100,000 distinct keys, publish only",
            kind=CaseKind.BINDINGS,
            exchange="topic",
            consumers=0,
            distinct_keys=100_000,
            limit=1_000_000,
        ),
    ]


def _durable() -> list[Case]:
    base = Case(name="", about="", group="durable", durable=True, consumers=0, window=WINDOW)
    fan = "fanout exchange to ten durable queues"
    return [
        replace(base, name="persistent-confirm", about="confirms, window 1000", limit=2_000_000),
        replace(
            base,
            name="persistent-roundtrip",
            about="confirms, window 1000, single acks, prefetch 250",
            consumers=1,
            manual_ack=True,
            prefetch=PREFETCH,
        ),
        replace(
            base, name="persistent-window-1", about="each publish waits for its confirm", window=1
        ),
        replace(
            base,
            name="fanout-durable",
            about=f"{fan}, confirms, window 1000; publishes are counted",
            exchange="fanout",
            queues=10,
            limit=500_000,
        ),
        replace(
            base,
            name="celery-persistent",
            about="Celery's task messages, no confirms (its default), single acks, prefetch 100",
            celery=True,
            window=0,
            consumers=1,
            manual_ack=True,
            prefetch=100,
        ),
    ]


def _scale() -> list[Case]:
    """What a message costs when there is a lot besides: compare the pairs, not the brokers."""
    base = Case(
        name="",
        about="",
        group="scale",
        durable=True,
        window=WINDOW,
        manual_ack=True,
        prefetch=PREFETCH,
    )
    flow = "persistent, confirms, single acks"
    return [
        replace(base, name="depth-10k", about=f"{flow}; 10,000 waiting", standing=10_000),
        replace(base, name="depth-1m", about=f"{flow}; 1,000,000 waiting", standing=1_000_000),
        replace(base, name="queues-10", about=f"{flow}; 10 other durable queues", others=10),
        replace(
            base, name="queues-10k", about=f"{flow}; 10,000 other durable queues", others=10_000
        ),
    ]


def _memory() -> list[Case]:
    base = Case(name="", about="", group="memory", kind=CaseKind.MEMORY, limit=1_000_000)
    return [
        replace(base, name="idle", about="fresh start, nothing connected", kind=CaseKind.IDLE),
        replace(
            base,
            name="million-ready",
            about="1,000,000 x 100 B waiting in one queue",
            consumers=0,
        ),
        replace(
            base,
            name="million-unacked",
            about="1,000,000 x 100 B delivered on one channel, none acknowledged",
            manual_ack=True,
            settles=False,
        ),
        replace(
            base,
            name="distinct-keys",
            about="1,000,000 distinct keys through a topic exchange (binding #), consumed",
            exchange="topic",
            distinct_keys=1_000_000,
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
