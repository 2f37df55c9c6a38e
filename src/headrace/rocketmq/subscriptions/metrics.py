"""Counters of a SubscriptionManager. Whoever records holds the manager's lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.rocketmq.subscriptions.records import SubscriptionEntry


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
        data = {name: getattr(self, name) for name in self.__slots__}
        return {
            name: dict(value) if isinstance(value, dict) else value for name, value in data.items()
        }

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
        self.topic_subscription_counts.pop(topic, None)

    def record_subscription_updated(self, topic: str) -> None:
        self.updated_subscriptions += 1

    def record_selector_updated(self, topic: str) -> None:
        self.updated_subscriptions += 1

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
