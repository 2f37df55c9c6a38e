"""Data classes and counters of a SubscriptionManager, and their JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from headrace.model.selectors import tag_code
from headrace.rocketmq.enums import ConflictType, SelectorType
from headrace.rocketmq.selector import ALL, MessageSelector


def now() -> datetime:
    return datetime.now(UTC)


def _time(text: str) -> datetime:
    """A time without a zone is local, as datetime.now() gives it."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """A subscription as sent to brokers in heartbeats."""

    topic: str
    expression_type: str = SelectorType.TAG.value
    sub_string: str = ALL
    tags_set: tuple[str, ...] = ()
    code_set: tuple[int, ...] = ()
    sub_version: int = 0
    is_active: bool = True
    """Inactive subscriptions are kept and not sent to brokers."""

    @classmethod
    def from_selector(cls, topic: str, selector: MessageSelector, version: int = 0) -> Self:
        expression = selector.expression
        if selector.type is SelectorType.TAG and not expression.strip():
            expression = ALL
        tags = tuple(sorted(selector.tags))
        return cls(
            topic=topic,
            expression_type=selector.type.value,
            sub_string=expression,
            tags_set=tags,
            code_set=tuple(tag_code(tag) for tag in tags),
            sub_version=version or time.time_ns() // 1_000_000,
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Of either spelling: RocketMQ's (subString) or this class's (sub_string)."""
        kind = data.get("expressionType") or data.get("expression_type") or "TAG"
        text = data.get("subString", data.get("sub_string", ALL))
        selector = MessageSelector.from_dict({"type": kind, "expression": text})
        version = int(data.get("subVersion", data.get("sub_version", 0)) or 0)
        made = cls.from_selector(data["topic"], selector, version)
        return replace(made, is_active=bool(data.get("isActive", data.get("is_active", True))))

    def to_dict(self) -> dict[str, Any]:
        """As in a heartbeat; inactive ones are marked."""
        inactive = {} if self.is_active else {"isActive": False}
        return {
            **inactive,
            "classFilterMode": False,
            "topic": self.topic,
            "subString": self.sub_string,
            "tagsSet": list(self.tags_set),
            "codeSet": list(self.code_set),
            "subVersion": self.sub_version,
            "expressionType": self.expression_type,
        }

    @property
    def selector(self) -> MessageSelector:
        return MessageSelector(SelectorType(self.expression_type), self.sub_string)


@dataclass(slots=True)
class SubscriptionEntry:
    """One subscribed topic."""

    topic: str
    selector: MessageSelector
    subscription_data: SubscriptionData
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    is_active: bool = True

    @classmethod
    def new(cls, topic: str, selector: MessageSelector) -> Self:
        return cls(topic, selector, SubscriptionData.from_selector(topic, selector))

    def update_timestamp(self) -> None:
        self.updated_at = now()

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "selector": self.selector.to_dict(),
            "subscription_data": self.subscription_data.to_dict(),
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "is_active": self.is_active,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        selector = MessageSelector.from_dict(data["selector"])
        kept = data.get("subscription_data")
        return cls(
            topic=data["topic"],
            selector=selector,
            subscription_data=(
                SubscriptionData.from_dict(kept)
                if kept
                else SubscriptionData.from_selector(data["topic"], selector)
            ),
            created_at=_time(data["created_at"]),
            updated_at=_time(data["updated_at"]),
            is_active=bool(data.get("is_active", True)),
        )


@dataclass(frozen=True, slots=True)
class SubscriptionConflict:
    """A subscription that was refused because the topic had another selector."""

    topic: str
    existing_selector: MessageSelector
    new_selector: MessageSelector
    conflict_type: ConflictType
    timestamp: datetime = field(default_factory=now)

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "existing_selector": self.existing_selector.to_dict(),
            "new_selector": self.new_selector.to_dict(),
            "conflict_type": self.conflict_type.value,
            "timestamp": self.timestamp.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            topic=data["topic"],
            existing_selector=MessageSelector.from_dict(data["existing_selector"]),
            new_selector=MessageSelector.from_dict(data["new_selector"]),
            conflict_type=ConflictType(data["conflict_type"]),
            timestamp=_time(data["timestamp"]),
        )


@dataclass(slots=True)
class SubscriptionMetrics:
    """What happened so far, and how many subscriptions there are."""

    total_subscriptions: int = 0
    active_subscriptions: int = 0
    added_subscriptions: int = 0
    removed_subscriptions: int = 0
    updated_subscriptions: int = 0
    conflicts: int = 0
    deactivated_subscriptions: int = 0
    activated_subscriptions: int = 0
    cleaned_subscriptions: int = 0
    conflict_types: dict[str, int] = field(default_factory=dict)
    topic_subscription_counts: dict[str, int] = field(default_factory=dict)
    selector_type_counts: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of to_dict(); ValueError for what is no count."""
        made = cls(**data)
        for name, value in made.to_dict().items():
            counts = value.values() if isinstance(value, dict) else (value,)
            if not all(type(count) is int and count >= 0 for count in counts):
                raise ValueError(f"metrics: {name} is {value!r}")
        return made

    def copy(self) -> SubscriptionMetrics:
        return SubscriptionMetrics(**self.to_dict())

    # -- recorders ---------------------------------------------------------------------------

    def record_subscription_added(self, topic: str) -> None:
        self.added_subscriptions += 1
        counts = self.topic_subscription_counts
        counts[topic] = counts.get(topic, 0) + 1

    def record_subscription_removed(self, topic: str) -> None:
        self.removed_subscriptions += 1
        left = self.topic_subscription_counts.pop(topic, 0) - 1
        if left > 0:
            self.topic_subscription_counts[topic] = left

    def record_subscription_updated(self, topic: str) -> None:
        self.updated_subscriptions += 1

    record_selector_updated = record_subscription_updated

    def record_subscription_deactivated(self, topic: str) -> None:
        self.deactivated_subscriptions += 1

    def record_subscription_activated(self, topic: str) -> None:
        self.activated_subscriptions += 1

    def record_conflict(self, conflict_type: str) -> None:
        self.conflicts += 1
        kind = str(conflict_type)
        self.conflict_types[kind] = self.conflict_types.get(kind, 0) + 1

    def record_subscriptions_cleaned(self, count: int) -> None:
        self.cleaned_subscriptions += count

    def record_all_cleared(self) -> None:
        self.removed_subscriptions += self.total_subscriptions
        self.topic_subscription_counts.clear()
        self.update_current_stats(())

    def update_current_stats(self, entries: Iterable[SubscriptionEntry]) -> None:
        """Totals as they are now."""
        kinds: Counter[str] = Counter()
        active = 0
        for entry in entries:
            kinds[entry.selector.type.value] += 1
            active += entry.is_active
        self.total_subscriptions = kinds.total()
        self.active_subscriptions = active
        self.selector_type_counts = dict(kinds)
