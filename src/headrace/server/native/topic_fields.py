"""Fields of topic requests as values of the SPI, and values as fields. Says what is wrong."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from headrace.core.topics.registry import MAX_QUEUES
from headrace.errors import BadTopicValue, BodyTooLarge, CommandInvalid
from headrace.model.retention import Retention, parse_retention
from headrace.model.topics.message_priority import Priority, priority_named
from headrace.model.topics.names import check_token
from headrace.store.topics.types import (
    DEFAULT_LEASE_MS,
    EARLIEST,
    LATEST,
    MAX_ATTEMPTS,
    ConsumerSpec,
    Entry,
    GroupInfo,
    PriorityLag,
    StoredMessage,
    TopicInfo,
    TopicSpec,
    UniformEntries,
)
from headrace.wire.native.payloads import MAX_ARRAY, Request

MAX_WAIT_MS = 60_000
MAX_LEASE_MS = 24 * 3_600_000
MAX_DELAY_MS = 30 * 24 * 3_600_000
MAX_TEXT = 255
_LARGEST = (1 << 63) - 1


# -- requests -----------------------------------------------------------------------------------


def _between(request: Request, name: str, low: int, high: int, default: int | None) -> int:
    value = request.fields.get(name)
    if value is None and default is not None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise BadTopicValue(f"{name} must be a whole number of {low} to {high}, not {value!r:.80}")
    return value


batch_of = partial(_between, name="batch", low=1, high=MAX_ARRAY, default=None)
wait_of = partial(_between, name="wait_ms", low=0, high=MAX_WAIT_MS, default=0)
delay_of = partial(_between, name="delay_ms", low=0, high=MAX_DELAY_MS, default=0)
limit_of = partial(_between, name="limit", low=1, high=MAX_ARRAY, default=100)


def spec_of(request: Request) -> TopicSpec:
    ms, size = request.fields.get("retention_ms"), request.fields.get("retention_bytes")
    for name, value in (("retention_ms", ms), ("retention_bytes", size)):
        if value is not None and not (type(value) is int and 0 < value <= _LARGEST):
            raise BadTopicValue(f"{name} must be greater than 0, or omitted")
    retention = None if ms is None and size is None else Retention(ms, size)
    if (text := request.text("retention", "")) and (retention := parse_retention(text)) is None:
        raise BadTopicValue(
            f"invalid retention {text!r:.80}: expected a duration, a size or both, "
            "for example 7d, 500MB or 7d,500MB"
        )
    queues = _between(request, "queues", 1, MAX_QUEUES, 1)
    return TopicSpec(request.text("name"), queues, retention, request.table("options"))


def reader_of(request: Request, *, group_only: bool = False) -> ConsumerSpec:
    """Who reads. A group may be asked about without a token."""
    group = request.text("group", "")
    token = request.text("token", "")
    if group:
        check_token(group, "group")
    if token or not (group and group_only):
        check_token(token)
    start = request.text("start", EARLIEST)
    if start not in (EARLIEST, LATEST):
        raise BadTopicValue(f"start {start!r} is unknown: {EARLIEST} or {LATEST}")
    return ConsumerSpec(
        token,
        group or None,
        start,
        _between(request, "lease_ms", 1, MAX_LEASE_MS, DEFAULT_LEASE_MS),
        _between(request, "min_share", 0, 50, 0),
        _between(request, "max_attempts", 1, 1 << 16, MAX_ATTEMPTS),
    )


group_of = partial(reader_of, group_only=True)


def group_name_of(request: Request) -> str:
    return request.text("group")


def reason_of(request: Request) -> str:
    return request.text("reason", "")[:200]


def claim_of(request: Request) -> list[object]:
    claim = request.fields.get("claim")
    if type(claim) is not list:
        raise CommandInvalid("'claim' must be an array")
    return claim


def ids_of(request: Request) -> list[tuple[Priority, int]] | None:
    """None: all of the claim."""
    ids = request.fields.get("ids")
    if ids is None:
        return None
    if type(ids) is not list:
        raise CommandInvalid("'ids' must be an array of [priority, id]")
    found = []
    for one in ids:
        match one:
            case [str(label), int(identity)] if not isinstance(identity, bool):
                found.append((priority_named(label), identity))
            case _:
                raise CommandInvalid("'ids' must be an array of [priority, id]")
    return found


def positions_of(request: Request) -> dict[Priority, int] | None:
    name = "positions" if request.fields.get("positions") is not None else "offsets"
    if request.fields.get(name) is None:
        return None
    found = {}
    for label, position in request.table(name).items():
        if type(position) is not int or not 0 <= position <= _LARGEST:
            raise BadTopicValue(f"position {position!r:.80} is refused: an id, or 0 for the start")
        found[priority_named(label)] = position
    return found


def time_of(request: Request) -> int | None:
    value = request.fields.get("time_ms", request.fields.get("time"))
    if value is not None and not (type(value) is int and 0 <= value <= _LARGEST):
        raise BadTopicValue(f"time_ms {value!r:.80} is refused: ms since 1970")
    return value


# -- entries ------------------------------------------------------------------------------------


def entries_of(request: Request, max_body: int) -> Sequence[Entry]:
    """What is to be appended: the request itself, or its batch. All are checked first."""
    token = request.text("token", "")
    if token:
        check_token(token)
    batch = request.fields.get("batch")
    if batch is None:
        return [_entry(request.fields, token, max_body)]
    if type(batch) is not list or not all(type(one) is dict for one in batch):
        raise CommandInvalid("'batch' must be an array of maps")
    return _alike(batch, token, max_body) or [_entry(one, token, max_body) for one in batch]


_PLAIN = frozenset(("body", "priority"))


def _alike(batch: list[dict[str, Any]], token: str, max_body: int) -> UniformEntries | None:
    """A batch of bodies with one priority, looked at as a whole: one by one they cost more than
    storing them does. None for any other; what is wrong with it is said of the one it is in."""
    if not batch or not set().union(*batch) <= _PLAIN:
        return None
    bodies: list[Any] = [one.get("body") for one in batch]
    if set(map(type, bodies)) != {bytes} or max(map(len, bodies)) > max_body:
        return None
    priorities = [one.get("priority") for one in batch]
    first = priorities[0]
    if priorities.count(first) != len(priorities) or not isinstance(first, str | None):
        return None
    return UniformEntries(
        bodies, Priority.MIDDLE if first is None else priority_named(first), token
    )


def _entry(fields: Mapping[str, Any], token: str, max_body: int) -> Entry:
    body = fields.get("body")
    if type(body) is not bytes:
        raise CommandInvalid("'body' must be binary")
    if len(body) > max_body:
        raise BodyTooLarge(
            f"a body of {len(body)} bytes is larger than {max_body} (setting max_message_size); "
            "nothing was appended"
        )
    priority = fields.get("priority")
    if priority is not None and type(priority) is not str:
        raise BadTopicValue("priority must be low, middle or high")
    priority = Priority.MIDDLE if priority is None else priority_named(priority)
    if fields.keys() <= _PLAIN:
        return Entry(body, priority, token)
    born = fields.get("born")
    if born is not None and not (type(born) is int and -_LARGEST <= born <= _LARGEST):
        raise BadTopicValue("born must be a time in ms since 1970")
    return Entry(
        body,
        priority,
        token,
        _text(fields, "key"),
        _text(fields, "tags"),
        _address(fields),
        _text(fields, "message_id"),
        born,
        _properties(fields),
    )


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not str or len(value) > MAX_TEXT:
        raise BadTopicValue(f"{name} must be text of at most {MAX_TEXT} characters")
    return value


def _address(fields: Mapping[str, Any]) -> str | None:
    value = _text(fields, "source_ip")
    if value is None:
        return None
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise BadTopicValue(f"source_ip {value!r} is no IPv4 or IPv6 address") from None


def _properties(fields: Mapping[str, Any]) -> dict[str, str]:
    value = fields.get("properties")
    if value is None:
        return {}
    good = type(value) is dict and all(
        type(name) is str and type(one) is str for name, one in value.items()
    )
    if not good:
        raise BadTopicValue("properties must be a map of text to text")
    properties: dict[str, str] = value
    return properties


# -- answers ------------------------------------------------------------------------------------


def topic_fields(info: TopicInfo, max_body: int) -> dict[str, object]:
    return {
        "name": info.name,
        "uuid": info.uuid,
        "engine": info.engine,
        "queues": info.queues,
        "retention_ms": info.retention.ms if info.retention else None,
        "retention_bytes": info.retention.size if info.retention else None,
        "created_at": info.created_at,
        "max_body": max_body,
        "parts": [[one.priority.label, *astuple(one)[1:]] for one in info.parts],
    }


def partition_fields(info: TopicInfo) -> list[dict[str, object]]:
    return [
        {
            "priority": one.priority.label,
            "partition": one.partition_index,
            "first": one.first,
            "end": one.end,
        }
        for one in info.parts
    ]


def message_fields(message: StoredMessage) -> tuple[object, ...]:
    return (message[0], message[1].label, *message[2:])


def lag_fields(lag: PriorityLag) -> list[object]:
    """In the order of `PriorityLag`."""
    return [lag.priority.label, *astuple(lag)[1:]]


def group_fields(topic: str, info: GroupInfo) -> dict[str, object]:
    return {
        "topic": topic,
        "group": info.group,
        "token": info.token,
        "members": list(info.members),
        "lag": [lag_fields(one) for one in info.lag],
    }
