"""Values of topics as fields of the native protocol, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.model.retention import Retention
from headrace.model.topics.message_priority import lane_named
from headrace.store.topics.engine import (
    ConsumerSpec,
    Entry,
    GroupInfo,
    Part,
    PriorityLag,
    StoredMessage,
    Taken,
    TopicInfo,
)


def reader(topic: str, who: ConsumerSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": topic,
        "token": who.token,
        "lease_ms": who.lease_ms,
        "max_attempts": who.max_attempts,
    }
    if who.group is not None:
        fields["group"] = who.group
    return fields


def appends(
    entries: Sequence[Entry], max_rows: int, max_bytes: int
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """As many requests as it takes: entries of one token each, within the limits of a frame."""
    batch: list[dict[str, Any]] = []
    token, size = "", 0
    for one in entries:
        is_full = len(batch) >= max_rows or size + len(one.body) > max_bytes
        if batch and (one.token != token or is_full):
            yield token, batch
            batch, size = [], 0
        token = one.token
        batch.append(entry(one))
        size += len(one.body)
    if batch:
        yield token, batch


def entry(one: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {"priority": one.lane.label, "body": one.body}
    for name in ("key", "tags", "source_ip", "message_id", "born"):
        if (value := getattr(one, name)) is not None:
            fields[name] = value
    if one.properties:
        fields["properties"] = dict(one.properties)
    return fields


def topic(fields: Mapping[str, Any]) -> TopicInfo:
    ms, size = fields["retention_ms"], fields["retention_bytes"]
    return TopicInfo(
        fields["name"],
        fields["uuid"],
        fields["engine"],
        fields["queues"],
        None if ms is None and size is None else Retention(ms, size),
        fields["created_at"],
        tuple(Part(lane_named(label), *rest) for label, *rest in fields["parts"]),
    )


def message(row: Sequence[Any]) -> StoredMessage:
    number, label, *rest = row
    return StoredMessage(number, lane_named(label), *rest)


def taken(reply: Mapping[str, Any]) -> Taken:
    return Taken(tuple(message(row) for row in reply["messages"]), tuple(reply["claim"]))


def lag(row: Sequence[Any]) -> PriorityLag:
    label, *rest = row
    return PriorityLag(lane_named(label), *rest)


def group(row: Mapping[str, Any]) -> GroupInfo:
    return GroupInfo(
        row["group"], row["token"], tuple(row["members"]), tuple(lag(one) for one in row["lag"])
    )
