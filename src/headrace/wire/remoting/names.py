"""Names of RocketMQ topics and groups: their rules, and what they mean."""

from __future__ import annotations

import re

from headrace.errors import PreconditionFailed

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"

TEMPLATE_TOPIC = "TBW102"  # new topics are made like it
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "RMQ_SYS_WHEEL_TIMER"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_DONE_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"

# Messages wait in these, knowing where they belong: only the broker writes to them.
HIDDEN_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
# Clients may not send to these.
CLOSED_TOPICS = HIDDEN_TOPICS | frozenset(
    {
        HALF_DONE_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
SYSTEM_TOPICS = CLOSED_TOPICS | {TEMPLATE_TOPIC, TRACE_TOPIC, "BenchmarkTest"}

CLIENT_INNER_PRODUCER = "CLIENT_INNER_PRODUCER"  # the group every client sends retries with
DEFAULT_PRODUCER = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER = "DEFAULT_CONSUMER"

TOPIC_MAX = 127
DERIVED_TOPIC_MAX = 255  # retry and dead-letter topics
GROUP_MAX = 120

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+\Z").match


def reply_topic(cluster: str) -> str:
    """Where replies are sent to; nothing is kept there."""
    return f"{cluster}_REPLY_TOPIC"


def retry_topic(group: str) -> str:
    """Where messages of ``group`` wait for another try."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where messages go which ``group`` could not consume."""
    return DEAD_LETTER_PREFIX + group


def in_namespace(namespace: str, name: str) -> str:
    """The name of a topic or group of a namespace: `ns%name`, after %RETRY% and %DLQ%."""
    if not namespace or is_system_topic(name) or name == CLIENT_INNER_PRODUCER:
        return name
    prefix, rest = _split_derived(name)
    return name if rest.startswith(f"{namespace}%") else f"{prefix}{namespace}%{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """The inverse of in_namespace()."""
    prefix, rest = _split_derived(name)
    return prefix + rest.removeprefix(f"{namespace}%") if namespace else name


def _split_derived(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def is_retry_topic(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    return topic.startswith(DEAD_LETTER_PREFIX)


def is_system_topic(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith("rmq_sys_")


def check_topic(topic: str) -> None:
    """PreconditionFailed when no topic can have this name."""
    derived = topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    _check("topic", topic, DERIVED_TOPIC_MAX if derived else TOPIC_MAX)


def check_group(group: str) -> None:
    """PreconditionFailed when no group can have this name."""
    _check("group", group, GROUP_MAX)


def _check(kind: str, name: str, longest: int) -> None:
    if not name:
        raise PreconditionFailed(f"a {kind} needs a name")
    if len(name) > longest:
        raise PreconditionFailed(
            f"{kind} '{name[:64]}...' has {len(name)} characters; {longest} are allowed"
        )
    if not _LEGAL(name):
        raise PreconditionFailed(
            f"{kind} '{name}' has characters other than letters, digits, '%', '|', '_' and '-'"
        )
