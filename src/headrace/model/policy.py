"""Policies: settings given to queues and exchanges by name, from outside.

Also the one place where a pattern from outside becomes a regular expression: a pattern that could
keep the broker busy for ever on one name is refused when it is set, not when it is used.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from headrace.errors import PreconditionFailed
from headrace.model.arguments import CHECKERS, plain_type_name

MAX_PATTERN: Final = 1024
# Each open-ended repeat in a row multiplies the steps by the length of the name, and so does a
# pattern that may begin anywhere. Measured on names of 255 characters made to be slow: three
# repeats take up to 1.7 s (four behind `^`: 1.4 s); one more would take over a minute.
MAX_REPEATS: Final = 3

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
    _search: Callable[[str], re.Match[str] | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_search", compile_pattern(self.pattern).search)

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
        return self._search(name) is not None


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


# -- patterns ----------------------------------------------------------------------------------


def compile_pattern(text: str) -> re.Pattern[str]:
    """Raise PreconditionFailed for what is no pattern, is too long, or may take for ever."""
    if len(text) > MAX_PATTERN:
        raise PreconditionFailed(
            f"pattern is too long: {len(text)} characters, at most {MAX_PATTERN} are allowed"
        )
    try:
        with warnings.catch_warnings():
            # Python warns where its syntax is about to change, and reads POSIX classes such as
            # [[:alpha:]] in its own way: a different meaning is worse than a refusal.
            warnings.simplefilter("error")
            pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PreconditionFailed(f"invalid pattern '{text}': {error}") from None
    if pattern.flags & re.VERBOSE:
        raise PreconditionFailed(f"invalid pattern '{text}': the flag x is not supported")
    slow = _slow_part(text)
    if slow is not None:
        raise PreconditionFailed(f"pattern '{text}' could take for ever: {slow}")
    return pattern


_TOKEN: Final = re.compile(
    r"""(?P<skip> \(\?\#[^)]*\) | \(\?[aiLmsu]+\) | \(\?P=\w+\) )   # comment, flags, reference
      | (?P<open> \( (?: \? (?: [:=!>] | <[=!] | P<\w+> | \(\w+\) | [aiLmsu-]+: ) )? )
      | (?P<close> \) )
      | (?P<choice> \| )
      | (?P<repeat> (?: [*+?] | \{ (?P<low>\d*) (?P<comma>,?) (?P<high>\d*) (?<!\{) \} ) [?+]? )
      | (?P<atom> \\. | \[ \^? \]? (?: \\. | [^\]\\] )* \] | . )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class _Part:
    """A group, or what was read last: how many ways there are to divide a name among it."""

    repeats: int = 0  # open-ended repeats in sequence, in the branch that is being read
    most: int = 0  # the same, of the worst finished branch
    choice: bool = False  # it has branches
    varies: bool = False  # something in it is repeated a variable number of times

    def absorb(self, part: _Part) -> None:
        self.repeats += max(part.repeats, part.most)
        self.choice |= part.choice
        self.varies |= part.varies


def _slow_part(text: str) -> str | None:
    """Why a valid pattern may need exponential or very high polynomial time, None if it may not.

    A repeated group is refused when its content can match the same text in more than one way
    (a repeat or branches inside it); that also refuses some harmless ones, such as `(ab?)*`.
    """
    groups = [_Part()]
    last = _Part()
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            groups[-1].absorb(last)
            last = _Part()
            groups.append(_Part())
        elif token.lastgroup == "close":
            group = groups.pop()
            group.absorb(last)
            last = group
        elif token.lastgroup == "choice":
            groups[-1].absorb(last)
            last = _Part()
            _next_branch(groups[-1])
        elif token["repeat"]:
            if _is_plural(token) and (last.varies or last.choice):
                return f"'{token['repeat']}' repeats a group that has repeats or branches inside"
            _repeat(last, token)
        else:
            groups[-1].absorb(last)
            last = _Part()
    groups[-1].absorb(last)
    whole = groups[0]
    limit = MAX_REPEATS + (text.startswith("^") and not whole.choice)
    if max(whole.repeats, whole.most) > limit:
        return f"more than {limit} open-ended repeats follow each other"
    return None


def _next_branch(group: _Part) -> None:
    group.most = max(group.most, group.repeats)
    group.repeats = 0
    group.choice = True


def _is_plural(token: re.Match[str]) -> bool:
    """Whether the repeat allows more than one round."""
    return _bounds(token)[1] > 1


def _repeat(part: _Part, token: re.Match[str]) -> None:
    low, high = _bounds(token)
    if low != high:
        part.varies = True
        if high > 1:
            part.repeats += 1


def _bounds(token: re.Match[str]) -> tuple[int, float]:
    sign = token["repeat"][0]
    if sign != "{":
        return (1 if sign == "+" else 0), (1 if sign == "?" else float("inf"))
    low = int(token["low"] or 0)
    if not token["comma"]:
        return low, low
    return low, int(token["high"]) if token["high"] else float("inf")
