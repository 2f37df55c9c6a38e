"""Names of topics and groups: why one cannot be used."""

from __future__ import annotations

import re

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
