"""What a user may do in a vhost: three patterns over resource names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from headrace.model.patterns import Pattern, compile_pattern, stored_pattern

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
DEFAULT_EXCHANGE: Final = "amq.default"  # how the exchange without a name is called here
NOTHING: Final = "^$"  # RabbitMQ reads '' as "the empty name", which nothing has


@dataclass(frozen=True, slots=True)
class Permissions:
    """A pattern may match anywhere in the name; the empty pattern allows nothing."""

    configure: str
    write: str
    read: str
    _patterns: dict[str, Pattern] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for action in (CONFIGURE, WRITE, READ):
            self._patterns[action] = stored_pattern(getattr(self, action) or NOTHING)

    def allows(self, action: str, resource: str) -> bool:
        """`action` is configure, write or read; the resource "" is the default exchange."""
        return self._patterns[action].matches(resource or DEFAULT_EXCHANGE)


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """Patterns over routing keys of one exchange; those of bindings are read."""

    write: str
    read: str
    _patterns: dict[str, Pattern] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for action in (WRITE, READ):
            self._patterns[action] = stored_pattern(getattr(self, action) or NOTHING)

    def allows(self, action: str, key: str) -> bool:
        return self._patterns[action].matches(key)


def check_patterns(*patterns: str) -> None:
    """Raise PreconditionFailed if one of them cannot be used; stored ones would match nothing."""
    for pattern in patterns:
        compile_pattern(pattern)


def expanded(pattern: str, user: str, vhost: str) -> str:
    """A pattern with `{username}` and `{vhost}` filled in, taken literally."""
    return pattern.replace("{username}", re.escape(user)).replace("{vhost}", re.escape(vhost))


def topic_refusal_text(key: str, exchange: str, vhost: str, user: str) -> str:
    return (
        f"access to topic '{key}' in exchange '{exchange or DEFAULT_EXCHANGE}' in vhost "
        f"'{vhost}' refused for user '{user}'"
    )


def refusal_text(kind: str, name: str, vhost: str, user: str) -> str:
    """What a refused client reads; `kind` is "queue" or "exchange"."""
    name = name or DEFAULT_EXCHANGE
    return f"access to {kind} '{name}' in vhost '{vhost}' refused for user '{user}'"
