"""The broker: its vhosts, its clock, and everything that is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from headrace.core.alarms import Alarms
from headrace.core.auth import Authority, GuestOnly
from headrace.core.clock import Clock, Timers
from headrace.core.storage import Storage
from headrace.core.turn import Turn
from headrace.core.vhost import Vhost
from headrace.errors import NotAllowed, PreconditionFailed

DEFAULT_VHOST = "/"


class Connection(Protocol):
    """A client's connection, of any protocol."""

    @property
    def vhost(self) -> Vhost | None:
        """The vhost it has entered."""

    def force_close(self, reason: str) -> None:
        """Tell the client that it must go, and close."""


class Broker:
    """A running broker, without its front doors. Everything runs on one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        directory: Path,
        memory_limit: int,
        disk_free_limit: int,
        user: str = "guest",
        password: str = "guest",
        clock: Clock | None = None,
        storage: Storage | None = None,
        turn: Turn | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.timers = Timers(self.clock, loop)
        self.turn = turn or Turn(loop)
        self.storage = storage or Storage(self.turn)
        self.turn.before_writing = self.storage.flush
        self.alarms = Alarms(
            self.timers, directory, memory_limit=memory_limit, disk_free_limit=disk_free_limit
        )
        self.vhosts: dict[str, Vhost] = {}
        self.connections: set[Connection] = set()
        self.authority: Authority = GuestOnly(user, password, self.vhosts)
        self.add_vhost(DEFAULT_VHOST)

    def start(self) -> None:
        self.alarms.start()
        self.storage.start_tidying(self.timers)

    def add_vhost(self, name: str) -> Vhost:
        """Make a vhost; one that is there already stays as it is."""
        if not name or len(name.encode()) > 255:
            raise PreconditionFailed("a vhost's name has 1 to 255 bytes")
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = Vhost(name, self.clock, self.timers, self.turn, self.storage)
            self.vhosts[name] = vhost
            self.storage.save_vhost(name)
        return vhost

    def delete_vhost(self, name: str) -> None:
        """Remove a vhost with all that is in it; its connections are closed."""
        vhost = self.get_vhost(name)
        del self.vhosts[name]
        for connection in [one for one in self.connections if one.vhost is vhost]:
            connection.force_close(f"vhost '{name}' is deleted")
        vhost.close()
        self.storage.delete_vhost(name)

    def get_vhost(self, name: str) -> Vhost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        return vhost

    def totals(self) -> Mapping[str, int]:
        """How many of each thing there are."""
        vhosts = self.vhosts.values()
        queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
        return {
            "vhosts": len(self.vhosts),
            "connections": len(self.connections),
            "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
            "queues": len(queues),
            "consumers": sum(len(queue.dealer) for queue in queues),
            "messages_ready": sum(queue.backlog.count for queue in queues),
            "messages_unacknowledged": sum(queue.unacked for queue in queues),
        }

    def close(self) -> None:
        """Stop the clock and make everything safe. Connections must be gone."""
        self.timers.close()
        self.storage.close()
