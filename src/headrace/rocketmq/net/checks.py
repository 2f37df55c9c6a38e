"""Checks of settings, names and addresses; each failure is one line that names the setting."""

from __future__ import annotations

import re
import ssl
from enum import StrEnum

from headrace.rocketmq.errors import ConfigurationError
from headrace.wire.remoting.names import (
    CLIENT_INNER_PRODUCER,
    CLOSED_TOPICS,
    DEAD_LETTER_PREFIX,
    DEFAULT_CONSUMER,
    DEFAULT_PRODUCER,
    GROUP_MAX,
    RETRY_PREFIX,
    TOPIC_MAX,
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_RESERVED_GROUPS = frozenset({DEFAULT_CONSUMER, DEFAULT_PRODUCER, CLIENT_INNER_PRODUCER})


def group_problem(group: object) -> str | None:
    """Why a name cannot be a group; None if it can."""
    if not isinstance(group, str) or not group:
        return "a group name is a text that is not empty"
    if len(group) > GROUP_MAX:
        return f"group name of {len(group)} characters; at most {GROUP_MAX} are allowed"
    if not _LEGAL.fullmatch(group):
        return f"group name {group!r}: only letters, digits and % | _ - are allowed"
    if group in _RESERVED_GROUPS:
        return f"group name {group!r} is reserved; choose one of your own"
    return None


def send_topic_problem(topic: object) -> str | None:
    """Why nothing can be sent to a topic; None if it can."""
    if not isinstance(topic, str) or not topic:
        return "a topic is a text that is not empty"
    if len(topic) > TOPIC_MAX and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return f"topic of {len(topic)} characters; at most {TOPIC_MAX} are allowed"
    if not _LEGAL.fullmatch(topic):
        return f"topic {topic!r}: only letters, digits and % | _ - are allowed"
    if topic in CLOSED_TOPICS:
        return f"topic {topic!r} belongs to the broker; send to one of your own"
    return None


def subscribe_topic_problem(topic: object) -> str | None:
    """Why a topic cannot be subscribed; None if it can."""
    if not isinstance(topic, str) or not topic.strip():
        return "a topic is a text that is not empty"
    if len(topic) > TOPIC_MAX:
        return f"topic of {len(topic)} characters; at most {TOPIC_MAX} are allowed"
    if topic == "DEFAULT_TOPIC" or topic.startswith("SYS_"):
        return f"topic {topic!r} is reserved; subscribe to one of your own"
    return None


_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:;/\[\]]+):(?P<port>\d{1,5})")


def check_group(name: str, value: object) -> None:
    problem = group_problem(value)
    if problem:
        raise ConfigurationError(f"{name}: {problem}")


def check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"[a-zA-Z0-9_-]*", value):
        raise ConfigurationError(f"{name} is {value!r}; allowed: letters, digits, _ and -")


def check_int(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name} is {value!r}; a whole number is needed")
    if not low <= value <= high:
        raise ConfigurationError(f"{name} is {value}; allowed: {low} to {high}")


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} is {value!r}; allowed: True or False")


def check_keys(access_key: str, secret_key: str) -> None:
    if bool(access_key) is not bool(secret_key):
        raise ConfigurationError("only one of access_key and secret_key is set; set both or none")


def tls_context(value: object) -> ssl.SSLContext | None:
    """None = plain text."""
    if isinstance(value, ssl.SSLContext):
        return value
    if not isinstance(value, bool):
        raise ConfigurationError(f"tls is {value!r}; allowed: True, False or an ssl.SSLContext")
    return ssl.create_default_context() if value else None


def member_of(name: str, kind: type[StrEnum], value: object) -> StrEnum:
    """A member of an enumeration, given as such or by its value."""
    try:
        return kind(value)  # type: ignore[arg-type]  # anything else is refused here
    except ValueError:
        names = ", ".join(one.value for one in kind)
        raise ConfigurationError(f"{name} is {value!r}; allowed: {names}") from None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; IPv6 hosts stand in brackets."""
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ConfigurationError(f"address {address!r} is not of the form host:port")
    return found["host"].strip("[]"), int(found["port"])


def addresses_of(name: str, text: object) -> tuple[str, ...]:
    """The addresses in a list separated by semicolons."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigurationError(
            f"{name} is {text!r}; give host:port, several separated by semicolons"
        )
    addresses = tuple(part.strip() for part in text.split(";") if part.strip())
    for address in addresses:
        try:
            split_address(address)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error}") from None
    return addresses
