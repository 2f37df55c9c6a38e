"""A subscription: who gets messages of a queue, and how many it may hold."""

from __future__ import annotations

from collections.abc import Mapping
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


class Consumer:
    """One consumer of one queue."""

    __slots__ = (
        "arguments",
        "channel",
        "exclusive",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "tag",
        "unacked",
        "wire",
    )

    def __init__(
        self,
        queue: Queue,
        channel: Subscriber,
        tag: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        prefetch: int = 0,
        priority: int = 0,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.queue = queue
        self.channel = channel
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch  # 0 = no limit
        self.priority = priority
        self.arguments = arguments or {}
        self.unacked = 0
        self.wire: dict[int, bytes] = {}  # encoded delivery heads, kept here by the session
