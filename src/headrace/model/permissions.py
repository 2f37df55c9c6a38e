"""What a user may do in a vhost: three patterns over resource names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.model.policy import compile_pattern

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
DEFAULT_EXCHANGE: Final = "amq.default"  # how the exchange without a name is called here
_MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Permissions:
    """A pattern may match anywhere in the name; the empty pattern allows nothing."""

    configure: str
    write: str
    read: str
    _searches: dict[str, Callable[[str], re.Match[str] | None]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _answers: dict[tuple[str, str], bool] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for action in (CONFIGURE, WRITE, READ):
            # RabbitMQ reads '' as "the empty name", which nothing has.
            self._searches[action] = compile_pattern(getattr(self, action) or "^$").search

    def allows(self, action: str, resource: str) -> bool:
        """`action` is configure, write or read; the resource "" is the default exchange."""
        answer = self._answers.get((action, resource))
        if answer is None:
            answer = self._searches[action](resource or DEFAULT_EXCHANGE) is not None
            if len(self._answers) >= _MAX_REMEMBERED:  # names come from clients: stay bounded
                self._answers.clear()
            self._answers[action, resource] = answer
        return answer


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """Patterns over routing keys of one exchange; those of bindings are read."""

    write: str
    read: str
    _searches: dict[str, Callable[[str], re.Match[str] | None]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for action in (WRITE, READ):
            self._searches[action] = compile_pattern(getattr(self, action) or "^$").search

    def allows(self, action: str, key: str) -> bool:
        return self._searches[action](key) is not None


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
