"""Direct reply-to: answers go straight to the requester's channel, through no queue.

The requester consumes from `amq.rabbitmq.reply-to`; each of its requests carries a name of its own
instead, which routes only as long as its channel lives.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from headrace.model.message import PublishedRun

PSEUDO_QUEUE = "amq.rabbitmq.reply-to"
PREFIX = PSEUDO_QUEUE + "."


class ReplyAddress:
    """Where one requester's answers arrive. A destination like a queue, but without storage."""

    __slots__ = ("consumer_tag", "deliver", "name")

    def __init__(self, consumer_tag: str, deliver: Callable[[PublishedRun], None]) -> None:
        self.name = PREFIX + secrets.token_urlsafe(24)
        self.consumer_tag = consumer_tag
        self.deliver: Callable[[PublishedRun], None] | None = deliver

    def put(self, batch: PublishedRun) -> bool:
        if self.deliver is not None:
            self.deliver(batch)
        return True


class ReplyAddresses:
    """The living reply addresses of a vhost, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, ReplyAddress] = {}

    def add(self, address: ReplyAddress) -> None:
        self._by_name[address.name] = address

    def remove(self, address: ReplyAddress) -> None:
        address.deliver = None
        self._by_name.pop(address.name, None)

    def find(self, name: str) -> ReplyAddress | None:
        return self._by_name.get(name)
