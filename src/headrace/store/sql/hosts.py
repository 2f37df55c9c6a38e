"""Which host of a database is in use: one that answers and accepts changes, until it fails."""

from __future__ import annotations

import random
import threading
import time
from typing import Final

from headrace.store.sql.connection import DbConnection
from headrace.store.sql.faults import Fault, FaultKind
from headrace.store.sql.url import MySqlSettings
from headrace.urls import Host

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
