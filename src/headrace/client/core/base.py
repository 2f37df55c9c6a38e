"""What both clients have in common: everything that neither waits nor is awaited."""

from __future__ import annotations

from typing import Any, Generic, Protocol

from headrace.client.core import requests
from headrace.client.core.channel_core import ChannelRequests
from headrace.client.core.channel_state import ChannelState
from headrace.client.core.connection_core import ConnectionCore, ConnectionState
from headrace.client.core.requests import ClientRequest
from headrace.client.core.unsettled import D
from headrace.client.properties import Properties
from headrace.client.settings import Settings


class Transport(Protocol):
    """A socket that drives a core."""

    core: ConnectionCore


class ConnectionBase:
    """What connections of both clients know of themselves."""

    _transport: Transport

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def is_open(self) -> bool:
        """True until it is closed for good; also while it is reconnecting."""
        return self._transport.core.state is not ConnectionState.CLOSED

    @property
    def is_connected(self) -> bool:
        """True when requests are sent at once."""
        return self._transport.core.state is ConnectionState.READY


class CallbackContext(Protocol):
    """Where callbacks of a channel run."""

    def is_here(self) -> bool:
        """True in a callback of this channel."""


class ChannelCore(Generic[D]):
    """Builds the calls which depend on the settings or on where they are made."""

    connection: ConnectionBase
    _lane: CallbackContext | None

    def __init__(self, state: ChannelState, calls: ChannelRequests[D]) -> None:
        self.state = state
        self.calls = calls
        self._has_prefetch = False

    @property
    def is_open(self) -> bool:
        return self.state.closed is None and self.connection.is_open

    def __repr__(self) -> str:
        state: Any = self.state.closed or "open"
        return f"<Channel {self.state.id}: {state}>"

    def _publication(
        self,
        exchange: str | None,
        key: str,
        properties: Properties,
        body: bytes | str,
        retry: bool | None,
    ) -> ClientRequest[int]:
        fields = requests.message_fields(exchange, key, properties, body)
        return requests.publish(fields, self._retries(retry))

    def _retries(self, retry: bool | None) -> bool:
        return self.connection.settings.retry_publishes if retry is None else retry

    def _acked(self, queue: str | None, message_id: str | None) -> bool:
        """What nearly all callbacks do: acknowledge the message they are at. False: not done."""
        lane = self._lane
        here = lane is not None and lane.is_here()
        return here and self.state.ledger.ack_current(queue, message_id)

    def _settlement(
        self,
        queue: str | None,
        message_id: str | None,
        tag: int | None,
        multiple: bool,
        wait: bool | None,
        requeue: bool | None,
    ) -> ClientRequest[None] | None:
        """The request to wait for; None when there is nothing to wait for."""
        if wait is None:
            wait = self._lane is None or not self._lane.is_here()
        if not wait and not multiple:
            self.calls.settle_later(queue, message_id, tag, requeue)
            return None
        return self.calls.settle(queue, message_id, tag, multiple=multiple, requeue=requeue)
