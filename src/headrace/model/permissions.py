"""What a user may do in a vhost: three patterns over resource names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Final

from headrace.model.patterns import Pattern, compile_pattern, stored_pattern

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
DEFAULT_EXCHANGE: Final = "amq.default"  # how the exchange without a name is called here
NOTHING: Final = "^$"  # RabbitMQ reads '' as "the empty name", which nothing has


@dataclass(frozen=True, slots=True)
class _ActionPatterns:
    """A pattern may match anywhere in the name; the empty pattern allows nothing."""

    _patterns: dict[str, Pattern] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            if one.init:
                self._patterns[one.name] = stored_pattern(getattr(self, one.name) or NOTHING)

    def allows(self, action: str, name: str) -> bool:
        """`action` is configure, write or read; the name "" is the default exchange's."""
        return self._patterns[action].matches(name)


@dataclass(frozen=True, slots=True)
class Permissions(_ActionPatterns):
    """Patterns over resource names."""

    configure: str
    write: str
    read: str

    def allows(self, action: str, name: str) -> bool:
        return self._patterns[action].matches(name or DEFAULT_EXCHANGE)


@dataclass(frozen=True, slots=True)
class TopicPermissions(_ActionPatterns):
    """Patterns over routing keys of one exchange; those of bindings are read."""

    write: str
    read: str


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
