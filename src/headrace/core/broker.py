"""The broker: its vhosts, its clock, and everything that is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from headrace.core.access import audit
from headrace.core.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, is_reached
from headrace.core.access.user import User
from headrace.core.access.users import Users
from headrace.core.alarms import Alarms
from headrace.core.clock import Clock, Timers
from headrace.core.counters import Churn
from headrace.core.loop_turn import LoopTurn
from headrace.core.parameters import TOPIC_SETTINGS, Parameters, Reports
from headrace.core.storage import Storage
from headrace.core.vhost import Vhost
from headrace.errors import NotAllowed, PreconditionFailed

DEFAULT_VHOST = "/"


class ConnectedClient(Protocol):
    """A client's connection, of any protocol."""

    user: User

    @property
    def vhost(self) -> Vhost | None:
        """The vhost it has entered."""

    @property
    def channel_count(self) -> int:
        """Open channels; protocols without any count as one."""

    def rights_changed(self, user: User) -> None:
        """The user's rights are different now: forget what was allowed before, end consumers
        that are not allowed any more."""

    def force_close(self, reason: str) -> None:
        """Send the reason to the client, and close."""


class Broker:
    """A running broker, without its front doors. Everything runs on one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        directory: Path,
        memory_limit: int,
        disk_free_limit: int,
        loopback_users: Collection[str] = ("guest",),
        clock: Clock | None = None,
        storage: Storage | None = None,
        turn: LoopTurn | None = None,
        events: bool = False,
    ) -> None:
        self.loop = loop
        self._events = events  # whether vhosts note what happens to messages
        self.clock = clock or Clock()
        self.timers = Timers(self.clock, loop)
        self.turn = turn or LoopTurn(loop)
        self.storage = storage or Storage(self.turn)
        self.alarms = Alarms(
            self.timers, directory, memory_limit=memory_limit, disk_free_limit=disk_free_limit
        )
        self.vhosts: dict[str, Vhost] = {}
        self.on_new_vhost: Callable[[Vhost], None] = lambda vhost: None
        self.connections: set[ConnectedClient] = set()
        self.churn = Churn()
        self.parameters = Parameters(self.storage)
        self.reports = Reports(self.parameters)
        self.users = Users(
            self.storage, self.vhosts, self._user_changed, loopback_users=loopback_users
        )
        # What operators see of the shard, for a shared broker.
        self.shared_status: Callable[[], Mapping[str, Any]] | None = None
        self.ensure_vhost(DEFAULT_VHOST)

    def start(self) -> None:
        self.alarms.start()
        self.storage.start_tidying(self.timers, self._expire_topics)

    # -- vhosts ---------------------------------------------------------------------------------

    def add_vhost(self, name: str) -> Vhost:
        """Make a vhost; one that is there already stays as it is.

        No user has access before `users.set_permissions`.
        """
        is_new = name not in self.vhosts
        vhost = self.ensure_vhost(name)
        if is_new:
            audit.record("vhost created", vhost=name)
        return vhost

    def ensure_vhost(self, name: str) -> Vhost:
        """The same as no act of anybody: at start, or again after a restart."""
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise PreconditionFailed("invalid vhost name: expected UTF-8") from None
        if not 1 <= size <= 255:
            raise PreconditionFailed("invalid vhost name: expected 1 to 255 bytes")
        vhost = self.vhosts.get(name)
        if vhost is None:
            vhost = Vhost(name, self.clock, self.timers, self.turn, self.storage)
            vhost.events.on = self._events
            vhost.topics.log.on_delete = partial(self.parameters.clear, name, TOPIC_SETTINGS)
            self.vhosts[name] = vhost
            self.on_new_vhost(vhost)
            self.storage.save_vhost(name)
        return vhost

    def delete_vhost(self, name: str) -> None:
        """Remove a vhost with all that is in it; its connections are closed."""
        vhost = self.get_vhost(name)
        del self.vhosts[name]
        for connection in [one for one in self.connections if one.vhost is vhost]:
            connection.force_close(f"vhost '{name}' is deleted")
        vhost.close()
        self.users.forget_vhost(name)
        self.parameters.forget_vhost(name)
        self.storage.delete_vhost(name)
        audit.record("vhost deleted", vhost=name)

    def get_vhost(self, name: str) -> Vhost:
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        return vhost

    def _expire_topics(self) -> None:
        now = self.clock.expiry_ms()
        for vhost in self.vhosts.values():
            vhost.topics.log.expire(now)
            vhost.pins.check_limits()

    # -- who is here ----------------------------------------------------------------------------

    def admit(self, user: User, vhost_name: str) -> tuple[User, Vhost]:
        """A user who has logged in enters a vhost: the present rights, and the vhost.

        NotAllowed when there is none, when it is closed to the user, or when it is full.
        """
        vhost = self.get_vhost(vhost_name)
        user = self.users.user(user.name)
        user.check_vhost(vhost_name)
        self._check_connections(user, vhost)
        return user, vhost

    def _check_connections(self, user: User, vhost: Vhost) -> None:
        # Counting is for those who have the limit: thousands may come at once.
        if MAX_CONNECTIONS in vhost.limits:
            count = sum(one.vhost is vhost for one in self.connections)
            if is_reached(vhost.limits, MAX_CONNECTIONS, count):
                raise NotAllowed(
                    f"access to vhost '{vhost.name}' refused for user '{user.name}': connection "
                    f"limit ({vhost.limits[MAX_CONNECTIONS]}) is reached"
                )
        if MAX_CONNECTIONS in user.limits:
            count = len(self.connections_of(user.name))
            if is_reached(user.limits, MAX_CONNECTIONS, count):
                raise NotAllowed(
                    f"connection refused for user '{user.name}': user connection limit "
                    f"({user.limits[MAX_CONNECTIONS]}) is reached"
                )

    def connections_of(self, user: str) -> list[ConnectedClient]:
        return [one for one in self.connections if one.user.name == user]

    def check_channels(self, user: User) -> None:
        """Raise NotAllowed unless the user may open one more channel."""
        if MAX_CHANNELS in user.limits:
            count = sum(one.channel_count for one in self.connections_of(user.name))
            if is_reached(user.limits, MAX_CHANNELS, count):
                raise NotAllowed(
                    f"number of channels opened for user '{user.name}' has reached the maximum "
                    f"allowed user limit of ({user.limits[MAX_CHANNELS]})"
                )

    def _user_changed(self, name: str) -> None:
        connections = self.connections_of(name)
        user = self.users.find(name) if connections else None
        for connection in connections:
            vhost = connection.vhost
            if user is None:
                connection.force_close(f"user '{name}' is deleted")
            elif vhost is not None and vhost.name not in user.permissions:
                connection.force_close(f"access to vhost '{vhost.name}' refused for user '{name}'")
            else:
                connection.rights_changed(user)

    def close(self) -> None:
        """Stop the clock and make everything safe. Connections must be gone."""
        self.users.close()
        for vhost in self.vhosts.values():
            vhost.staging.close()
            vhost.events.flush()
        self.timers.close()
        self.storage.close()
