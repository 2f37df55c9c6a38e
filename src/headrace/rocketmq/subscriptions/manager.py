"""Subscriptions of one consumer: checked, counted, exported. Safe for any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import RLock
from typing import Any

from headrace.rocketmq.enums import ConflictType
from headrace.rocketmq.errors import (
    ConfigurationError,
    InvalidSelectorError,
    InvalidTopicError,
    SubscriptionConflictError,
    SubscriptionError,
    SubscriptionLimitExceededError,
    TopicNotSubscribedError,
)
from headrace.rocketmq.net.checks import subscribe_topic_problem
from headrace.rocketmq.selector import MessageSelector, selector_of
from headrace.rocketmq.subscriptions.records import (
    SubscriptionConflict,
    SubscriptionData,
    SubscriptionEntry,
    SubscriptionMetrics,
    now,
)

HISTORY = 1000
DAY = 24 * 3600.0


class SubscriptionManager:
    """Topics and their selectors.

    ``on_change`` is called for every change that brokers must know, without the lock.
    """

    def __init__(
        self, max_subscriptions: int = 1000, on_change: Callable[[], None] | None = None
    ) -> None:
        if max_subscriptions < 1:
            raise ConfigurationError(f"max_subscriptions is {max_subscriptions}; at least 1")
        self.max_subscriptions = max_subscriptions
        self.on_change = on_change
        self._lock = RLock()
        self._entries: dict[str, SubscriptionEntry] = {}
        self._conflicts: deque[SubscriptionConflict] = deque(maxlen=HISTORY)
        self._metrics = SubscriptionMetrics()
        self._last_version = 0

    # -- changes -----------------------------------------------------------------------------

    def subscribe(self, topic: str, selector: MessageSelector | str | None) -> bool:
        """Add a topic, or renew the subscription when the selector is the same."""
        wanted = _checked(topic, selector)
        with self._lock:
            entry = self._entries.get(topic)
            if entry is None:
                if len(self._entries) >= self.max_subscriptions:
                    raise SubscriptionLimitExceededError(
                        f"{self.max_subscriptions} topics are subscribed, which is the limit; "
                        "unsubscribe one or raise max_subscriptions"
                    )
                self._entries[topic] = self._fresh(SubscriptionEntry.new(topic, wanted))
                self._metrics.record_subscription_added(topic)
                changed = True
            else:
                self._refuse_conflict(entry, wanted)
                changed = not entry.is_active
                self._renew(entry, is_active=True)
                self._metrics.record_subscription_updated(topic)
        self._notify(changed)
        return True

    def unsubscribe(self, topic: str) -> bool:
        """False when the topic is not subscribed."""
        with self._lock:
            if self._entries.pop(topic, None) is None:
                return False
            self._metrics.record_subscription_removed(topic)
        self._notify(True)
        return True

    def update_selector(self, topic: str, new_selector: MessageSelector | str) -> bool:
        """Change the expression of a topic. Its type stays: another type is a conflict."""
        wanted = _checked(topic, new_selector)
        with self._lock:
            entry = self._entries.get(topic)
            if entry is None:
                raise TopicNotSubscribedError(f"topic {topic!r} is not subscribed; subscribe first")
            if entry.selector.type is not wanted.type:
                self._refuse_conflict(entry, wanted)
            changed = entry.selector != wanted
            if changed:
                fresh = self._fresh(SubscriptionEntry.new(topic, wanted))
                fresh.created_at, fresh.is_active = entry.created_at, entry.is_active
                self._entries[topic] = fresh
            else:
                self._renew(entry, entry.is_active)
            self._metrics.record_selector_updated(topic)
        self._notify(changed)
        return True

    def deactivate_subscription(self, topic: str) -> bool:
        """Keep the subscription and stop consuming the topic."""
        return self._mark(topic, False)

    def activate_subscription(self, topic: str) -> bool:
        return self._mark(topic, True)

    def clear_all(self) -> None:
        with self._lock:
            self._metrics.update_current_stats(self._entries.values())
            self._entries.clear()
            self._metrics.record_all_cleared()
        self._notify(True)

    def cleanup_inactive_subscriptions(
        self, inactive_threshold: float | timedelta = timedelta(seconds=DAY)
    ) -> int:
        """Drop what has been inactive for longer than the threshold (seconds); how many."""
        if not isinstance(inactive_threshold, timedelta):
            inactive_threshold = timedelta(seconds=inactive_threshold)
        with self._lock:
            limit = now() - inactive_threshold
            old = [
                topic
                for topic, entry in self._entries.items()
                if not entry.is_active and entry.updated_at < limit
            ]
            for topic in old:
                del self._entries[topic]
                self._metrics.topic_subscription_counts.pop(topic, None)
            self._metrics.record_subscriptions_cleaned(len(old))
        return len(old)

    # -- questions ---------------------------------------------------------------------------

    def get_subscription(self, topic: str) -> SubscriptionEntry | None:
        with self._lock:
            entry = self._entries.get(topic)
            return replace(entry) if entry else None

    def get_all_subscriptions(self) -> list[SubscriptionEntry]:
        with self._lock:
            return [replace(entry) for entry in self._entries.values()]

    def get_active_subscriptions(self) -> list[SubscriptionEntry]:
        with self._lock:
            return [replace(entry) for entry in self._entries.values() if entry.is_active]

    def is_subscribed(self, topic: str) -> bool:
        with self._lock:
            return topic in self._entries

    def get_subscription_count(self) -> int:
        with self._lock:
            return len(self._entries)

    def validate_subscription(self, topic: str, selector: MessageSelector | str) -> bool:
        """Whether subscribe() would find topic and selector in order."""
        try:
            _checked(topic, selector)
        except SubscriptionError:
            return False
        return True

    def get_conflict_history(self, limit: int = 100) -> list[SubscriptionConflict]:
        """The latest conflicts, the newest last."""
        with self._lock:
            return list(self._conflicts)[-limit:] if limit > 0 else []

    def clear_conflict_history(self) -> None:
        with self._lock:
            self._conflicts.clear()

    @property
    def metrics(self) -> SubscriptionMetrics:
        """A copy, with the totals of this moment."""
        with self._lock:
            self._metrics.update_current_stats(self._entries.values())
            return self._metrics.copy()

    # -- conversions -------------------------------------------------------------------------

    def to_subscription_data_list(self) -> list[SubscriptionData]:
        """All subscriptions as heartbeats carry them; inactive ones are marked."""
        with self._lock:
            return [
                replace(one.subscription_data, is_active=one.is_active)
                for one in self._entries.values()
            ]

    def from_subscription_data_list(
        self, data: Iterable[SubscriptionData | Mapping[str, Any]]
    ) -> None:
        """Replace everything."""
        records = [
            one if isinstance(one, SubscriptionData) else SubscriptionData.from_dict(one)
            for one in data
        ]
        self._replace(
            SubscriptionEntry(
                one.topic, _checked(one.topic, one.selector), one, is_active=one.is_active
            )
            for one in records
        )

    def export_subscriptions(self) -> dict[str, Any]:
        """Plain JSON; import_subscriptions() reads it."""
        with self._lock:
            return {
                "subscriptions": [entry.to_dict() for entry in self._entries.values()],
                "conflict_history": [one.to_dict() for one in self._conflicts],
                "export_time": now().isoformat(),
                "metrics": self.metrics.to_dict(),
            }

    def import_subscriptions(self, data: Mapping[str, Any]) -> None:
        """Replace everything by what was exported; on bad data nothing changes."""
        try:
            entries = [SubscriptionEntry.from_dict(one) for one in data["subscriptions"]]
            conflicts = [
                SubscriptionConflict.from_dict(one) for one in data.get("conflict_history", ())
            ]
            metrics = SubscriptionMetrics.from_dict(data.get("metrics", {}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SubscriptionError(
                f"this is no export of subscriptions ({error!r}); nothing was changed"
            ) from error
        for entry in entries:
            _checked(entry.topic, entry.selector)
        self._replace(entries, conflicts, metrics)

    # -- within ------------------------------------------------------------------------------

    def _replace(
        self,
        entries: Iterable[SubscriptionEntry],
        conflicts: Sequence[SubscriptionConflict] = (),
        metrics: SubscriptionMetrics | None = None,
    ) -> None:
        table = {entry.topic: entry for entry in entries}
        if len(table) > self.max_subscriptions:
            raise SubscriptionLimitExceededError(
                f"{len(table)} topics are more than the limit of {self.max_subscriptions}; "
                "nothing was changed"
            )
        with self._lock:
            for entry in table.values():
                self._outdate(entry)
            self._entries = table
            if metrics is not None:
                self._metrics = metrics
                self._conflicts = deque(conflicts, maxlen=HISTORY)
            self._metrics.topic_subscription_counts = dict.fromkeys(table, 1)
        self._notify(True)

    def _mark(self, topic: str, active: bool) -> bool:
        with self._lock:
            entry = self._entries.get(topic)
            if entry is None:
                return False
            changed = entry.is_active is not active
            self._renew(entry, active)
            if changed and active:
                self._metrics.record_subscription_activated(topic)
            elif changed:
                self._metrics.record_subscription_deactivated(topic)
        self._notify(changed)
        return True

    def _renew(self, entry: SubscriptionEntry, is_active: bool) -> None:
        entry.is_active = is_active
        entry.update_timestamp()

    def _fresh(self, entry: SubscriptionEntry) -> SubscriptionEntry:
        """Brokers take a changed subscription only when its version is greater."""
        data = entry.subscription_data
        self._last_version = max(self._last_version + 1, data.sub_version)
        entry.subscription_data = replace(data, sub_version=self._last_version)
        return entry

    def _outdate(self, entry: SubscriptionEntry) -> None:
        """An imported subscription replaces what brokers know, however old it is."""
        version = entry.subscription_data.sub_version
        known = self._entries.get(entry.topic)
        if known is None or known.selector == entry.selector:
            self._last_version = max(self._last_version, version)
        elif known.subscription_data.sub_version >= version:
            self._fresh(entry)

    def _refuse_conflict(self, entry: SubscriptionEntry, wanted: MessageSelector) -> None:
        if entry.selector == wanted:
            return
        kind = (
            ConflictType.EXPRESSION_MISMATCH
            if entry.selector.type is wanted.type
            else ConflictType.SELECTOR_TYPE_MISMATCH
        )
        self._conflicts.append(SubscriptionConflict(entry.topic, entry.selector, wanted, kind))
        self._metrics.record_conflict(kind)
        advice = (
            "call update_selector() to change it"
            if kind is ConflictType.EXPRESSION_MISMATCH
            else "unsubscribe first to change the type"
        )
        raise SubscriptionConflictError(
            f"{kind}: topic {entry.topic!r} is subscribed with {entry.selector.type} "
            f"{entry.selector.expression!r}, not {wanted.type} {wanted.expression!r}; {advice}"
        )

    def _notify(self, changed: bool) -> None:
        if changed and self.on_change is not None:
            self.on_change()


def _checked(topic: object, selector: object) -> MessageSelector:
    problem = subscribe_topic_problem(topic)
    if problem:
        raise InvalidTopicError(problem)
    if isinstance(selector, str):
        selector = selector_of(selector)
    if not isinstance(selector, MessageSelector):
        raise InvalidSelectorError(f"{selector!r} is no MessageSelector and no tag expression")
    selector.validate()
    return selector
