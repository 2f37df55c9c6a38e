"""A broker of ours for RocketMQ clients."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.server.app import Server
from headrace.server.embedded import core
from headrace.testing import RunningBroker


@dataclass(frozen=True)
class Ours:
    """See link.Site."""

    broker: RunningBroker
    broker_name: str = "headrace"

    @property
    def name_address(self) -> str:
        address = self.broker.namesrv_addr
        assert address is not None, "it was started for RocketMQ clients"
        return address

    def secret(self, user: str = "guest") -> tuple[str, str]:
        """An access key and its secret, for requests that need a login."""
        pair = user, "s3cret-s3cret"

        async def set_secret(server: Server) -> None:
            core(server).users.set_secret(*pair)

        self.broker._running().call(set_secret)
        return pair

    @property
    def broker_address(self) -> str:
        return f"{self.broker.host}:{self.broker.ports['remoting']}"
