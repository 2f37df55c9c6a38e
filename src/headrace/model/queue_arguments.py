"""Arguments of queues and consumers: legal values, and the settings they make with a policy.

The texts of the errors are those RabbitMQ 3.10 gives, since people search for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.errors import PreconditionFailed
from headrace.model.exchange_arguments import (
    Declaration,
    TypeName,
    check_same,
    check_same_argument,
    plain_type_name,
)
from headrace.model.retention import Retention, parse_retention

OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
ACK_TIMEOUT_ACTIONS: Final = ("requeue", "dead-letter")
DURABILITIES: Final = ("fsync", "os", "memory")  # what a confirm promises
# Ten years in milliseconds: RabbitMQ takes this and refuses one more.
MAX_DURATION_MS: Final = 315_360_000_000


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What a queue does, after its arguments and its policy are merged. None = no limit."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int | None = None
    queue_type: str = "classic"
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    ack_timeout_ms: int | None = None
    ack_timeout_action: str = "requeue"
    durability: str = "fsync"
    retention: Retention | None = None


def _no_integer(value: object, type_name: TypeName) -> str | None:
    """What is wrong with a value that must be a number; a time stamp is none, for RabbitMQ."""
    kind = type_name(value)
    if isinstance(value, int) and kind not in ("bool", "timestamp"):
        return None
    return f'"expected integer, got {kind}"'


# -- one argument of a queue: a checker returns None or what is wrong, in RabbitMQ's words --------

Checker = Callable[[object, TypeName], str | None]


def _integer(low: int = 0, high: int | None = None, above: str = "value_too_large") -> Checker:
    def check(value: object, type_name: TypeName) -> str | None:
        wrong = _no_integer(value, type_name)
        if wrong is not None or not isinstance(value, int):
            return wrong
        if value < low:
            return f"{{value_zero,{value}}}" if value == 0 else f"{{value_negative,{value}}}"
        if high is not None and value > high:
            return f"{{{above},{value}}}"
        return None

    return check


def _text(value: object, type_name: TypeName) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{type_name(value)}}}"


def _boolean(value: object, type_name: TypeName) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def _one_of(words: tuple[str, ...], otherwise: str) -> Checker:
    def check(value: object, type_name: TypeName) -> str | None:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{type_name(value)}}}"
        return None if value in words else otherwise.format(value)

    return check


def _retention(value: object, type_name: TypeName) -> str | None:
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    return None if parse_retention(value) is not None else "invalid_retention"


def _version(value: object, type_name: TypeName) -> str | None:
    wrong = _no_integer(value, type_name)
    return wrong or (None if value in (1, 2) else f"\"unsupported queue version '{value}'\"")


# In the order in which RabbitMQ looks at them, so that of two mistakes the same one is reported.
CHECKERS: Final[dict[str, Checker]] = {
    "x-dead-letter-exchange": _text,
    "x-queue-type": _one_of(("classic", "quorum"), "\"unsupported queue type '{}'\""),
    "x-expires": _integer(1, MAX_DURATION_MS),
    "x-message-ttl": _integer(0, MAX_DURATION_MS),
    "x-dead-letter-routing-key": _text,
    "x-max-length": _integer(),
    "x-max-length-bytes": _integer(),
    "x-max-priority": _integer(0, 255, "max_value_exceeded"),
    "x-overflow": _one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _version,
    "x-single-active-consumer": _boolean,
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-in-memory-length": _integer(),
    "x-max-in-memory-bytes": _integer(),
    "x-quorum-initial-group-size": _integer(1),
    # RabbitMQ 3.10 takes anything here; negative means no limit, as in its later versions.
    "x-delivery-limit": _no_integer,
    "x-consumer-timeout": _integer(1, MAX_DURATION_MS),
    "x-ack-timeout": _integer(1, MAX_DURATION_MS),
    "x-ack-timeout-action": _one_of(ACK_TIMEOUT_ACTIONS, "invalid_ack_timeout_action"),
    "x-durability": _one_of(DURABILITIES, "invalid_durability"),
    "x-retention": _retention,
}

# Compared on redeclaration, in RabbitMQ's order; unknown arguments are not.
_COMPARED: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-dead-letter-strategy",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-ack-timeout",
    "x-ack-timeout-action",
    "x-durability",
    "x-retention",
    "x-queue-type",
    "x-queue-master-locator",
    "x-queue-leader-locator",
)

_STREAM_ONLY: Final = ("x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")
_NOT_FOR: Final[dict[str, tuple[str, ...]]] = {
    "classic": (
        "x-delivery-limit",
        "x-dead-letter-strategy",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        *_STREAM_ONLY,
    ),
    "quorum": (
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        *_STREAM_ONLY,
    ),
}


def check_queue_arguments(
    name: str, vhost: str, declared: Declaration, *, type_name: TypeName
) -> None:
    """Raise PreconditionFailed when a new queue cannot have these arguments and properties."""
    arguments = declared.arguments
    queue_type = arguments.get("x-queue-type", "classic")
    if queue_type == "stream":
        raise PreconditionFailed(
            f"invalid arg 'x-queue-type' for queue '{name}' in vhost '{vhost}': Headrace does not "
            "support streams; use a topic for a log that can be read again, or a quorum queue"
        )
    unfit = _NOT_FOR.get(str(queue_type), ())
    for key in CHECKERS:
        if key in arguments and key not in unfit:
            _check_argument(key, name, vhost, arguments, type_name)
    for key in arguments:
        if key in unfit:
            raise PreconditionFailed(
                f"invalid arg '{key}' for queue '{name}' in vhost '{vhost}' "
                f"of queue type rabbit_{queue_type}_queue"
            )
    if queue_type == "quorum":
        _check_replicated(name, vhost, declared)


def _check_argument(
    key: str, name: str, vhost: str, arguments: Mapping[str, object], type_name: TypeName
) -> None:
    value = arguments[key]
    what = f"queue '{name}' in vhost '{vhost}'"
    wrong = CHECKERS[key](value, type_name)
    if wrong is not None and key == "x-dead-letter-exchange":  # worded differently by RabbitMQ
        raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{key}' in {what}")
    if key == "x-dead-letter-routing-key" and "x-dead-letter-exchange" not in arguments:
        wrong = wrong or "routing_key_but_no_dlx_defined"
    if wrong is not None:
        raise PreconditionFailed(f"invalid arg '{key}' for {what}: {wrong}")


def _check_replicated(name: str, vhost: str, declared: Declaration) -> None:
    for wrong, claim in (
        ("auto-delete", declared.auto_delete),
        ("exclusive-owner", declared.exclusive),
        ("non-durable", not declared.durable),
    ):
        if claim:
            raise PreconditionFailed(
                f"invalid property '{wrong}' for queue '{name}' in vhost '{vhost}'"
            )


# -- what arguments and policy mean together ----------------------------------------------------


def queue_settings(arguments: Mapping[str, object], policy: Mapping[str, object]) -> QueueSettings:
    """Merge checked arguments with a checked policy definition.

    Of two numbers the smaller wins, since both are limits; of anything else, the argument.
    """
    queue_type = _word(arguments, {}, "queue-type") or "classic"
    limit = _smaller(arguments, policy, "delivery-limit") if queue_type == "quorum" else None
    return QueueSettings(
        message_ttl_ms=_smaller(arguments, policy, "message-ttl"),
        expires_ms=_smaller(arguments, policy, "expires"),
        max_length=_smaller(arguments, policy, "max-length"),
        max_length_bytes=_smaller(arguments, policy, "max-length-bytes"),
        overflow=_word(arguments, policy, "overflow") or "drop-head",
        dead_letter_exchange=_word(arguments, policy, "dead-letter-exchange"),
        dead_letter_routing_key=_word(arguments, policy, "dead-letter-routing-key"),
        max_priority=_smaller(arguments, {}, "max-priority"),
        queue_type=queue_type,
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=limit,
        ack_timeout_ms=_ack_timeout(arguments, policy),
        ack_timeout_action=_word(arguments, policy, "ack-timeout-action") or "requeue",
        durability=_word(arguments, policy, "durability") or "fsync",
        retention=parse_retention(_word(arguments, policy, "retention") or ""),
    )


def _ack_timeout(arguments: Mapping[str, object], policy: Mapping[str, object]) -> int | None:
    """`consumer-timeout` is RabbitMQ's name for it (there it closes the channel, here never)."""
    given = (
        _smaller(arguments, policy, "ack-timeout"),
        _smaller(arguments, policy, "consumer-timeout"),
    )
    return min((value for value in given if value is not None), default=None)


def _smaller(arguments: Mapping[str, object], policy: Mapping[str, object], key: str) -> int | None:
    """The smaller of the two numbers; a negative one is no limit."""
    given = (arguments.get("x-" + key), policy.get(key))
    limits = [value for value in given if isinstance(value, int) and value >= 0]
    return min(limits, default=None)


def _word(arguments: Mapping[str, object], policy: Mapping[str, object], key: str) -> str | None:
    for value in (arguments.get("x-" + key), policy.get(key)):
        if isinstance(value, str):
            return value
    return None


def check_equivalent_queue(
    name: str, vhost: str, *, received: Declaration, current: Declaration, type_name: TypeName
) -> None:
    """Raise PreconditionFailed when the queue exists with other properties.

    Arguments that mean nothing to a queue of its type are not compared. Who owns an exclusive
    queue is checked elsewhere.
    """
    what = f"queue '{name}' in vhost '{vhost}'"
    check_same("durable", what, received.durable, current.durable)
    check_same("auto_delete", what, received.auto_delete, current.auto_delete)
    unfit = _NOT_FOR.get(str(current.arguments.get("x-queue-type", "classic")), ())
    for key in _COMPARED:
        if key not in unfit:
            check_same_argument(key, what, received.arguments, current.arguments, type_name)


def consumer_priority(
    arguments: Mapping[str, object],
    *,
    queue: str = "",
    vhost: str = "/",
    type_name: TypeName = plain_type_name,
) -> int:
    """The consumer's priority, 0 when none is given."""
    value = arguments.get("x-priority", 0)
    wrong = _no_integer(value, type_name)
    if wrong is None and isinstance(value, int):
        return value
    raise PreconditionFailed(
        f"invalid arg 'x-priority' for queue '{queue}' in vhost '{vhost}': {wrong}"
    )
