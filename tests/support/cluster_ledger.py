"""Producers and members of a group on all nodes of a database cluster, and the accounts of it.

Every engine is a process as far as the database can see. Leases are short and many messages are
nacked, so that claims of several nodes meet in the same rows.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.errors import ClaimLost, EngineUnavailable
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import (
    ConsumerSpec,
    Entry,
    ReadResult,
    StoredMessage,
    TopicSpec,
)

TOPIC = "ledger"
GROUP = "g"
LEASE_MS = 1500
Place = tuple[Priority, int]
T = TypeVar("T")


@dataclass
class Accounts:
    """What producers and members were told. Filled by many threads."""

    confirmed: dict[Place, list[str]] = field(default_factory=dict)
    unconfirmed: set[str] = field(default_factory=set)
    """Their producer was told that they may have been stored."""
    acknowledged: Counter[str] = field(default_factory=Counter)
    unsettled: set[str] = field(default_factory=set)
    """Their member was told that the commit may have been done."""
    errors: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _confirmed_at: float | None = None

    def confirm(self, entries: Sequence[Entry], ids: Sequence[int]) -> None:
        with self._lock:
            for entry, number in zip(entries, ids, strict=True):
                bodies = self.confirmed.setdefault((entry.priority, number), [])
                bodies.append(bytes(entry.body).decode())
            now = time.monotonic()
            if self._confirmed_at is not None:
                self.longest_gap_s = max(self.longest_gap_s, now - self._confirmed_at)
            self._confirmed_at = now

    def settle(self, messages: Sequence[StoredMessage], *, is_known: bool = True) -> None:
        bodies = [bytes(one.body).decode() for one in messages]
        with self._lock:
            if is_known:
                self.acknowledged.update(bodies)
            else:
                self.unsettled.update(bodies)

    @property
    def lost(self) -> set[str]:
        """Confirmed, and never acknowledged."""
        bodies = {body for its in self.confirmed.values() for body in its}
        return bodies - set(self.acknowledged) - self.unsettled

    @property
    def ids_twice(self) -> dict[Place, list[str]]:
        return {place: bodies for place, bodies in self.confirmed.items() if len(bodies) > 1}

    @property
    def acknowledged_twice(self) -> set[str]:
        return {body for body, count in self.acknowledged.items() if count > 1}

    def __str__(self) -> str:
        return (
            f"confirmed {sum(map(len, self.confirmed.values()))}, may have been stored "
            f"{len(self.unconfirmed)}, acknowledged {len(self.acknowledged)}, may have been "
            f"acknowledged {len(self.unsettled)}, lost {len(self.lost)}, ids confirmed twice "
            f"{len(self.ids_twice)}, acknowledged twice {len(self.acknowledged_twice)}, longest "
            f"time without a confirmed append {self.longest_gap_s:.1f} s, errors "
            f"{Counter(one[:60] for one in self.errors).most_common(5)}"
        )

    def check(self) -> None:
        assert not self.lost, f"{self}: {sorted(self.lost)[:10]}"
        assert not self.ids_twice, f"{self}: {dict(list(self.ids_twice.items())[:10])}"
        assert not self.acknowledged_twice, f"{self}: {sorted(self.acknowledged_twice)[:10]}"


def run(
    urls: Sequence[str],
    seed: int,
    appends: int,
    *,
    accident: Callable[[], None] | None = None,
    append_mode: str = "counter",
    is_quick: bool = False,
) -> Accounts:
    """One producer and two members on each URL until everything is acknowledged. ``accident`` is
    called when a third of the appends is done, and the producers go on until it returns.
    ``is_quick``: members find a backlog, read one message at a time and seldom do anything else,
    so that most of it is claimed ahead."""
    accounts = Accounts()
    with ExitStack() as stack:
        engines = []
        for url in urls:
            engines.append(MySqlEngine(url))
            stack.callback(engines[-1].close)
        engines[0].create(TopicSpec(TOPIC, options={"append_mode": append_mode}))
        drained, is_over = threading.Event(), threading.Event()
        left = appends // len(engines)
        producing = [
            _Producer(engine, accounts, f"{seed}.{at}", left, is_over)
            for at, engine in enumerate(engines)
        ]
        reading = [
            _Member(engines[at % len(engines)], accounts, f"{seed}.m{at}", drained, is_quick)
            for at in range(2 * len(engines))
        ]
        threads = [threading.Thread(target=one, daemon=True) for one in (*producing, *reading)]
        for thread in threads[: len(producing)]:
            thread.start()
        while is_quick and sum(one.done for one in producing) < appends // 4:
            time.sleep(0.05)
        for thread in threads[len(producing) :]:
            thread.start()
        if accident is not None:
            while sum(one.done for one in producing) < appends // 3:
                time.sleep(0.05)
            accident()
        is_over.set()
        for thread in threads[: len(producing)]:
            thread.join()
        drained.set()
        for thread in threads[len(producing) :]:
            thread.join()
        engines[0].delete(TOPIC)
    return accounts


class _Producer:
    """Appends until it has done its part and the accident is over."""

    def __init__(
        self,
        engine: MySqlEngine,
        accounts: Accounts,
        name: str,
        left: int,
        is_over: threading.Event,
    ) -> None:
        self._engine, self._accounts, self._name = engine, accounts, name
        self._left, self._is_over = left, is_over
        self._chance = random.Random(name)
        self.done = 0

    def __call__(self) -> None:
        number = 0
        while self.done < self._left or not self._is_over.is_set():
            count = self._chance.choice((1, 1, 1, 2, 5))
            priority = self._chance.choice(tuple(Priority))
            entries = [
                Entry(f"{self._name}.{number + at}".encode(), priority) for at in range(count)
            ]
            number += count
            try:
                ids = self._engine.append(TOPIC, entries)
            except EngineUnavailable as error:
                self._accounts.errors.append(str(error))
                if "may have been stored" in str(error):
                    self._accounts.unconfirmed.update(bytes(one.body).decode() for one in entries)
                time.sleep(0.05)
            else:
                self._accounts.confirm(entries, ids)
                self.done += count
            if self._is_over.is_set() is False and self.done >= self._left:
                time.sleep(0.02)  # only waiting for the accident


class _Member:
    """Reads, nacks some, sometimes is too slow, commits."""

    def __init__(
        self,
        engine: MySqlEngine,
        accounts: Accounts,
        name: str,
        drained: threading.Event,
        is_quick: bool,
    ) -> None:
        self._engine, self._accounts, self._drained = engine, accounts, drained
        self._chance = random.Random(name)
        # Without a share for lower priorities most reads go the short way.
        share = 0 if is_quick else self._chance.choice((0, 0, 20))
        # One: it claims ahead.
        self._limits = (1,) if is_quick else self._chance.choice(((1,), (1, 5, 20)))
        self._seldom = 0.05 if is_quick else 1.0
        self._alone = 0.1 if is_quick else 0.5  # a commit that is no part of the next read
        self._reader = ConsumerSpec(
            name, GROUP, lease_ms=LEASE_MS, max_attempts=1000, min_share=share
        )
        self._held: ReadResult = ReadResult()

    def __call__(self) -> None:
        while True:
            try:
                if not self._read() and self._drained.is_set() and self._is_done():
                    return
            except ClaimLost:
                continue
            except EngineUnavailable as error:
                self._accounts.errors.append(str(error))
                time.sleep(0.05)

    def _is_done(self) -> bool:
        lags = self._engine.lag(TOPIC, self._reader)
        time.sleep(0.1)
        return not any(lag.messages + lag.claimed + lag.retrying for lag in lags)

    def _read(self) -> bool:
        engine, reader, chance = self._engine, self._reader, self._chance
        held, self._held = self._held, ReadResult()
        limit = chance.choice(self._limits)
        if held.messages:
            taken = self._settle(
                held.messages, lambda: engine.commit_and_read(TOPIC, reader, held.claim, limit)
            )
        else:
            taken = engine.read(TOPIC, reader, limit)
        if not taken.messages:
            time.sleep(0.02)
            return False
        nacked: set[Place] = set()
        if chance.random() < 0.1 * self._seldom:
            engine.nack(TOPIC, reader, taken.claim, None, 0)
            return True
        if chance.random() < 0.3 * self._seldom:
            nacked = {(one.priority, one.id) for one in taken.messages if chance.random() < 0.5}
            engine.nack(TOPIC, reader, taken.claim, sorted(nacked), 0)
        if chance.random() < 0.02 * self._seldom:
            time.sleep(LEASE_MS / 1000 + 0.2)
        if not nacked and chance.random() > self._alone:
            self._held = taken  # committed by the next read
            return True
        done = [one for one in taken.messages if (one.priority, one.id) not in nacked]
        self._settle(done, lambda: engine.commit(TOPIC, reader, taken.claim))
        return True

    def _settle(self, done: Sequence[StoredMessage], commit: Callable[[], T]) -> T:
        try:
            result = commit()
        except EngineUnavailable as error:
            if "nothing was done" not in str(error):
                self._accounts.settle(done, is_known=False)
            raise
        self._accounts.settle(done)
        return result
