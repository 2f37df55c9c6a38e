"""What programs pass to the library: BadTopicValue for what is of the wrong kind, before anything
is sent. The engines look at the values themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headrace.errors import BadTopicValue
from headrace.model.topics.message_priority import Priority, lane_named


def whole(name: str, value: object) -> int:
    if type(value) is not int:
        raise BadTopicValue(f"{name} is a whole number, not {value!r:.80}")
    return value


def seconds(name: str, value: object) -> float:
    """Not infinite: no clock reaches that."""
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise BadTopicValue(f"{name} is a number of seconds, not {value!r:.80}")
    return value  # type: ignore[return-value]


def text(name: str, value: object) -> str:
    """Half of a surrogate pair is no text: nobody could store it as UTF-8."""
    if not isinstance(value, str):
        raise BadTopicValue(f"{name} must be a string, not {type(value).__name__}")
    if not value.isascii():
        encoded(name, value)
    return value


def encoded(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise BadTopicValue(f"{name} is no text that UTF-8 can hold: {error}") from None


def properties(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise BadTopicValue(f"properties map strings to strings, not a {type(value).__name__}")
    for pair in value.items():
        for one in pair:
            text("a name or value of properties", one)
    return dict(value)


def positions(value: object) -> dict[Priority, int]:
    """Per priority, or one for all."""
    if isinstance(value, Mapping):
        return {lane_named(name): whole("a position", one) for name, one in value.items()}
    return dict.fromkeys(Priority, whole("a position", value))
