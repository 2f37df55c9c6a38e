"""Connections that threads share, one thread at a time, and which host of a database they use: one
that answers and accepts changes, until it fails."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from headrace.errors import EngineUnavailable
from headrace.store.sql.connection import CONFLICT, DbConnection
from headrace.store.sql.faults import Fault, FaultKind, refusal
from headrace.store.sql.url import MySqlSettings
from headrace.urls import Host

T = TypeVar("T")
_STALE_S: Final = 30.0  # idle for longer: ask the server whether the connection lives
_PATIENCE_S: Final = 60  # changes of tables may take an hour, and are not repeated for that long
_UNKNOWN: Final = "it may have been done"

_AVOID_S: Final = 2.0  # a host that has just failed is tried after the others


class HostList:
    """Shared by the pools of an engine, so that all of them move together: what one connection
    has written another must see. May be used from any thread."""

    def __init__(self, settings: MySqlSettings) -> None:
        hosts = list(settings.hosts)
        if settings.spread:
            random.shuffle(hosts)
        self._lock = threading.Lock()
        self._hosts = hosts
        self._failed: dict[Host, float] = {}
        self.current = hosts[0]

    def __len__(self) -> int:
        return len(self._hosts)

    def connect(self, settings: MySqlSettings, lock_wait_s: int) -> DbConnection:
        """Fault of the last host when none will do."""
        fault: Fault | None = None
        for host in self._order():
            try:
                found = DbConnection(settings, lock_wait_s, host, must_write=len(self) > 1)
            except Fault as failed:
                fault = failed
                self.leave(host)
                if failed.kind is FaultKind.DENIED:
                    break
            else:
                self.current = host
                return found
        assert fault is not None
        raise fault

    def leave(self, host: Host) -> None:
        """It has failed: the others are tried first."""
        with self._lock:
            self._failed[host] = time.monotonic()

    def _order(self) -> list[Host]:
        now = time.monotonic()
        with self._lock:
            failed = {host: at for host, at in self._failed.items() if now - at < _AVOID_S}
            self._failed = failed
        # Among those that failed, the one that failed first; the sort is stable.
        return sorted(self._hosts, key=lambda host: (failed.get(host, 0.0), host != self.current))


class Pool:
    """At most ``size`` connections, opened when needed. May be used from any thread."""

    def __init__(
        self,
        settings: MySqlSettings,
        size: int,
        lock_wait_s: int = 3,
        hosts: HostList | None = None,
    ) -> None:
        self.place = settings.place
        self._settings = settings
        self._hosts = hosts or HostList(settings)
        self._size = size
        self._lock_wait_s = lock_wait_s
        patience_s = min(settings.timeout, _PATIENCE_S) + settings.connect_timeout
        self._policy = replace(CONFLICT, deadline_s=patience_s)
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._room = threading.Semaphore(self._size)
        self._idle: list[DbConnection] = []

    # -- for the engine --------------------------------------------------------------------------

    def call(
        self,
        work: Callable[[DbConnection], T],
        *,
        unknown: str = _UNKNOWN,
        repeatable: bool = False,
    ) -> T:
        """Do it, again when nothing was done; deliberate errors instead of faults.

        ``repeatable`` work is also done again when the connection was lost, because twice does no
        harm. Where there are several hosts, a lost one is left for the next. Fault comes through
        only when a table is missing.
        """
        lost = 0

        def attempt() -> T:
            with self.session() as session:
                before = session.commits
                try:
                    return work(session)
                except Fault as fault:
                    if session.commits > before and not repeatable:
                        fault.kind = FaultKind.LOST  # some of it was done
                    raise

        def is_retryable(error: Exception) -> bool:
            nonlocal lost
            if not isinstance(error, Fault):
                return False
            lost += error.kind is FaultKind.LOST
            if error.kind in (FaultKind.UNREACHABLE, FaultKind.READ_ONLY):
                return len(self._hosts) > 1
            return error.kind is FaultKind.AGAIN or (
                repeatable and error.kind is FaultKind.LOST and (lost < 3 or len(self._hosts) > 1)
            )

        try:
            return self._policy.run(attempt, is_retryable)
        except Fault as fault:
            if fault.kind is FaultKind.NO_TABLE:
                raise
            raise refusal(fault, self.place, unknown) from None

    @contextmanager
    def session(self) -> Iterator[DbConnection]:
        """A connection for one thread; Fault when there is none."""
        if self._pid != os.getpid():
            self._reset()  # a forked child must not speak on its parent's sockets
        with self._room:
            session = self._take()
            try:
                yield session
            finally:
                self._release(session)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    # -- inside ----------------------------------------------------------------------------------

    def _take(self) -> DbConnection:
        while True:
            with self._lock:
                if self._is_closed:
                    raise EngineUnavailable(f"the engine of {self.place} is closed")
                session = self._idle.pop() if self._idle else None
            if session is None:
                return self._hosts.connect(self._settings, self._lock_wait_s)
            if session.host != self._hosts.current:
                session.close()
                continue
            is_fresh = time.monotonic() - session.used_at < _STALE_S
            if not session.was_left() and (is_fresh or session.is_alive()):
                return session
            session.close()

    def _release(self, session: DbConnection) -> None:
        with self._lock:
            if not session.is_broken and not self._is_closed:
                self._idle.append(session)
                return
        if session.is_broken:
            self._hosts.leave(session.host)
        session.close()
