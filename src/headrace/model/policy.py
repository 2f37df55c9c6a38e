"""Policies: settings given to queues and exchanges by name, from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple

from headrace.errors import PreconditionFailed
from headrace.model.exchange_arguments import plain_type_name
from headrace.model.patterns import Pattern, compile_pattern, stored_pattern
from headrace.model.queue_arguments import CHECKERS

_QUEUE_TYPES: Final = {
    "classic_queues": "classic",
    "quorum_queues": "quorum",
    "streams": "stream",
}
APPLY_TO: Final = ("all", "queues", "exchanges", *_QUEUE_TYPES)

# Keys with a queue argument of the same name are checked as that argument is.
_LIKE_ARGUMENTS: Final = (
    "message-ttl",
    "expires",
    "max-length",
    "max-length-bytes",
    "overflow",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "queue-mode",
    "queue-version",
    "delivery-limit",
    "consumer-timeout",
    "ack-timeout",
    "durability",
    "retention",
    "ack-timeout-action",
)
# What an operator policy may set: limits, so that the smaller of two values can win.
OPERATOR_KEYS: Final = (
    "message-ttl",
    "expires",
    "max-length",
    "max-length-bytes",
    "delivery-limit",
    "max-in-memory-length",
    "max-in-memory-bytes",
)
# Known, and without effect on the type of the value: parts of a cluster, streams, retention.
_FREE: Final = ("max-age", "max-in-memory-length", "max-in-memory-bytes")
_FREE_PREFIXES: Final = ("ha-", "federation-")


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. Build it with `checked` when it comes from outside."""

    name: str
    vhost: str
    pattern: str
    apply_to: str = "all"
    priority: int = 0
    definition: Mapping[str, object] = field(default_factory=dict, hash=False)
    _names: Pattern = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", stored_pattern(self.pattern))

    @classmethod
    def checked(
        cls,
        name: str,
        vhost: str,
        pattern: str,
        apply_to: str = "all",
        priority: int = 0,
        definition: Mapping[str, object] | None = None,
        *,
        is_operator: bool = False,
    ) -> Policy:
        """Raise PreconditionFailed, naming the mistake, unless everything is as it must be."""
        if apply_to not in APPLY_TO:
            raise PreconditionFailed(
                f"invalid apply-to '{apply_to}' of policy '{name}': "
                f"expected one of {', '.join(APPLY_TO)}"
            )
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise PreconditionFailed(
                f"invalid priority of policy '{name}': "
                f"expected integer, got {plain_type_name(priority)}"
            )
        if not definition:
            raise PreconditionFailed(f"policy '{name}' has an empty definition")
        for key, value in definition.items():
            wrong = _wrong_setting(key, value)
            if wrong is None and is_operator and key not in OPERATOR_KEYS:
                wrong = f"'{key}' cannot be set by an operator policy: {', '.join(OPERATOR_KEYS)}"
            if wrong is not None:
                raise PreconditionFailed(f"invalid definition of policy '{name}': {wrong}")
        compile_pattern(pattern)
        return cls(name, vhost, pattern, apply_to, priority, dict(definition))

    @classmethod
    def from_json(
        cls, name: str, vhost: str, value: Mapping[str, Any], *, is_operator: bool = False
    ) -> Policy:
        """The policy of a definitions file; `checked`, and KeyError where something is missing."""
        return cls.checked(
            name,
            vhost,
            value["pattern"],
            value.get("apply-to", "all"),
            value.get("priority", 0),
            value["definition"],
            is_operator=is_operator,
        )

    def as_json(self) -> dict[str, Any]:
        """The fields that `from_json` reads."""
        return {
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": dict(self.definition),
            "priority": self.priority,
        }

    def applies(self, kind: str, name: str, queue_type: str = "classic") -> bool:
        """Whether this is meant for the queue or exchange (`kind`) of that name."""
        if self.apply_to not in ("all", kind + "s") and (
            kind != "queue" or _QUEUE_TYPES.get(self.apply_to) != queue_type
        ):
            return False
        return self._names.matches(name)


def effective(
    policies: Iterable[Policy], kind: str, name: str, queue_type: str = "classic"
) -> Policy | None:
    """The one policy that counts: highest priority first, then the smaller name."""
    fitting = (policy for policy in policies if policy.applies(kind, name, queue_type))
    return min(fitting, key=lambda policy: (-policy.priority, policy.name), default=None)


def bounded(policy: Policy | None, operator: Policy | None) -> Mapping[str, object]:
    """The settings of a policy within the limits of an operator policy: the smaller values."""
    settings = policy.definition if policy is not None else {}
    limits = operator.definition if operator is not None else {}
    both = {key: min(settings[key], limits[key], key=_limit) for key in settings.keys() & limits}
    return {**settings, **limits, **both}


def _limit(value: object) -> float:
    return value if isinstance(value, int) and value >= 0 else inf  # a negative one is no limit


def _wrong_setting(key: str, value: object) -> str | None:
    if key in _LIKE_ARGUMENTS:
        wrong = CHECKERS["x-" + key](value, plain_type_name)
        return None if wrong is None else f"'{key}': {wrong}"
    if key == "alternate-exchange":
        if isinstance(value, str):
            return None
        return f"'{key}': expected a string, got {plain_type_name(value)}"
    if key in _FREE or key.startswith(_FREE_PREFIXES):
        return None
    return f"'{key}' is not a recognised policy setting"


class AppliedPolicies(NamedTuple):
    """What counts for one queue: names of policies, and the settings they make together."""

    policy: str | None = None
    operator_policy: str | None = None
    definition: Mapping[str, object] = {}


NO_POLICIES: Final = AppliedPolicies()
