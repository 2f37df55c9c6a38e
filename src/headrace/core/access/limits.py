"""Limits of users and vhosts, by the names RabbitMQ gives them. Absent or negative: no limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import PreconditionFailed

MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"

USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)


def checked_limit(name: str, value: object, known: tuple[str, ...]) -> int:
    """The value; PreconditionFailed unless it is one that the limit can have."""
    if name not in known:
        raise PreconditionFailed(f"unknown limit '{name}'; expected one of {', '.join(known)}")
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise PreconditionFailed(
            f"invalid limit '{name}': expected a whole number, negative for no limit"
        )
    return value


def is_reached(limits: Mapping[str, int], name: str, count: int) -> bool:
    """Whether there is no room for one more."""
    limit = limits.get(name, -1)
    return 0 <= limit <= count
