"""A subscription: who gets messages of a queue, and how many it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.model.message import Run

if TYPE_CHECKING:
    from headrace.core.queues.queue import Queue


class Subscriber(Protocol):
    """What a consumer's channel must be able to do; every protocol's session has one."""

    @property
    def connection(self) -> object:
        """Consumers of one connection see one order of deliveries."""

    def room(self, consumer: Consumer) -> int:
        """How many messages it can take now; 0 or less = none."""

    def deliver(self, consumer: Consumer, run: Run) -> None:
        """Send the messages; note them as unacknowledged unless the consumer needs no acks."""

    def cancelled(self, consumer: Consumer) -> None:
        """The queue ended the subscription."""


@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """One consumer of one queue."""

    queue: Queue
    channel: Subscriber
    tag: str
    _: KW_ONLY
    no_ack: bool = False
    exclusive: bool = False
    prefetch: int = 0  # 0 = no limit
    priority: int = 0
    arguments: Mapping[str, object] = field(default_factory=dict)
    unacked: int = 0
    wire: dict[int, bytes] = field(default_factory=dict)  # encoded heads, kept by the session
