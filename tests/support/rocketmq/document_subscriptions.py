"""The rows of the original document on selectors and subscriptions; see document_rows."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from headrace import rocketmq as api
from support.rocketmq.document_rows import (
    ENUMS,
    ERRORS,
    MANAGER,
    METRICS,
    ROWS,
    SELECTORS,
    Stage,
    row,
)

# -- selectors -----------------------------------------------------------------------------------


@row(
    SELECTORS, "by_tag", "by_sql", "from_dict", "to_dict", "validate", "is_tag_type",
    "create_tag_selector", "create_sql_selector", "MessageSelector()",
)  # fmt: skip
def selectors(stage: Stage) -> str | None:
    tags = api.MessageSelector.by_tag("order || payment")
    sql = api.MessageSelector.by_sql("color = 'red' AND price > 100")
    for one in (tags, sql, api.MessageSelector()):
        one.validate()
        assert api.MessageSelector.from_dict(one.to_dict()) == one
    assert tags.to_dict() == {"type": "TAG", "expression": "order || payment"}
    assert api.create_tag_selector("a") == api.MessageSelector.by_tag("a")
    assert api.create_sql_selector("a = 1") == api.MessageSelector.by_sql("a = 1")
    assert [api.is_tag_type(text) for text in ("", "TAG", "tag", "SQL92")] == [True] * 3 + [False]
    return None


# -- the subscription manager --------------------------------------------------------------------

TAG = api.MessageSelector.by_tag("order || payment")
OTHER = api.MessageSelector.by_tag("refund")
SQL = api.MessageSelector.by_sql("price > 100")


def _manager() -> api.SubscriptionManager:
    manager = api.SubscriptionManager(max_subscriptions=500)
    assert manager.subscribe("order_topic", TAG) is True
    return manager


@row(MANAGER, "subscribe", "is_subscribed", "get_subscription", "get_subscription_count")
def subscribe(stage: Stage) -> str | None:
    manager = _manager()
    entry = manager.get_subscription("order_topic")
    assert entry is not None and (entry.topic, entry.selector) == ("order_topic", TAG)
    before = entry.updated_at
    assert manager.subscribe("order_topic", TAG)
    after = manager.get_subscription("order_topic")
    assert after is not None and after.updated_at > before
    assert (manager.is_subscribed("order_topic"), manager.get_subscription_count()) == (True, 1)
    assert manager.get_subscription("unknown") is None
    for topic in ("", "x" * 128, "DEFAULT_TOPIC", "SYS_x", None):
        with pytest.raises(api.InvalidTopicError):
            manager.subscribe(topic, TAG)  # type: ignore[arg-type]
    with pytest.raises(api.InvalidSelectorError):
        manager.subscribe("t", 5)  # type: ignore[arg-type]
    for selector in (OTHER, SQL):
        with pytest.raises(api.SubscriptionConflictError):
            manager.subscribe("order_topic", selector)
    kinds = [one.conflict_type for one in manager.get_conflict_history()]
    assert kinds == ["EXPRESSION_MISMATCH", "SELECTOR_TYPE_MISMATCH"]
    return None


@row(MANAGER, "max_subscriptions")
def limit(stage: Stage) -> str | None:
    manager = api.SubscriptionManager(max_subscriptions=1)
    manager.subscribe("a", TAG)
    with pytest.raises(api.SubscriptionLimitExceededError):
        manager.subscribe("b", TAG)
    assert manager.subscribe("a", TAG)
    return "at the limit a known topic can be renewed; the document refuses it"


@row(MANAGER, "update_selector")
def update_selector(stage: Stage) -> str | None:
    manager = _manager()
    assert manager.update_selector("order_topic", OTHER) is True
    entry = manager.get_subscription("order_topic")
    assert entry is not None and entry.selector == OTHER
    with pytest.raises(api.TopicNotSubscribedError):
        manager.update_selector("unknown", TAG)
    with pytest.raises(api.SubscriptionConflictError):
        manager.update_selector("order_topic", SQL)
    return "it changes the expression, as in the document's example; its code refuses every change"


@row(MANAGER, "unsubscribe", "clear_all")
def unsubscribe(stage: Stage) -> str | None:
    manager = _manager()
    assert [manager.unsubscribe("order_topic"), manager.unsubscribe("order_topic")] == [True, False]
    manager.subscribe("a", TAG)
    manager.clear_all()
    assert manager.get_all_subscriptions() == []
    return None


@row(
    MANAGER, "get_all_subscriptions", "get_active_subscriptions", "deactivate_subscription",
    "activate_subscription",
)  # fmt: skip
def activity(stage: Stage) -> str | None:
    manager = _manager()
    assert manager.deactivate_subscription("order_topic") is True
    assert len(manager.get_all_subscriptions()) == 1
    assert manager.get_active_subscriptions() == []
    assert manager.activate_subscription("order_topic") is True
    assert len(manager.get_active_subscriptions()) == 1
    assert manager.activate_subscription("unknown") is False
    return None


@row(MANAGER, "to_subscription_data_list", "from_subscription_data_list")
def data_list(stage: Stage) -> str | None:
    manager = _manager()
    manager.subscribe("other", SQL)
    manager.deactivate_subscription("other")
    again = api.SubscriptionManager()
    again.subscribe("replaced", TAG)
    again.from_subscription_data_list(manager.to_subscription_data_list())
    states = {one.topic: one.is_active for one in again.get_all_subscriptions()}
    assert states == {"order_topic": True, "other": False}
    return "inactive subscriptions are listed with `is_active=False` and not sent to brokers"


@row(MANAGER, "export_subscriptions", "import_subscriptions")
def export(stage: Stage) -> str | None:
    manager = _manager()
    with pytest.raises(api.SubscriptionConflictError):
        manager.subscribe("order_topic", OTHER)
    data = manager.export_subscriptions()
    assert set(data) == {"subscriptions", "conflict_history", "export_time", "metrics"}
    datetime.fromisoformat(data["export_time"])
    again = api.SubscriptionManager()
    again.import_subscriptions(data)
    assert again.is_subscribed("order_topic") and len(again.get_conflict_history()) == 1
    return None


@row(MANAGER, "cleanup_inactive_subscriptions")
def cleanup(stage: Stage) -> str | None:
    manager = _manager()
    manager.deactivate_subscription("order_topic")
    data = manager.export_subscriptions()
    old = (datetime.now() - timedelta(hours=25)).isoformat()  # without a zone, as in the document
    data["subscriptions"][0]["updated_at"] = old
    manager.import_subscriptions(data)
    assert manager.cleanup_inactive_subscriptions() == 1
    assert manager.cleanup_inactive_subscriptions(inactive_threshold=3600) == 0
    return None


@row(MANAGER, "validate_subscription")
def validate(stage: Stage) -> str | None:
    manager = api.SubscriptionManager()
    assert manager.validate_subscription("t", TAG) is True
    assert manager.validate_subscription("SYS_t", TAG) is False
    return None


@row(ENUMS, "conflict type")
def conflict_type(stage: Stage) -> str | None:
    manager = _manager()
    for other in (OTHER, api.MessageSelector.by_sql("price > 100")):
        with pytest.raises(api.SubscriptionConflictError):
            manager.subscribe("order_topic", other)
    kinds = [one.conflict_type for one in manager.get_conflict_history()]
    assert kinds == ["EXPRESSION_MISMATCH", "SELECTOR_TYPE_MISMATCH"]
    assert manager.metrics.conflict_types == dict.fromkeys(kinds, 1)
    return None


@row(MANAGER, "get_conflict_history", "clear_conflict_history")
def history(stage: Stage) -> str | None:
    manager = _manager()
    for _ in range(1100):
        with pytest.raises(api.SubscriptionConflictError):
            manager.subscribe("order_topic", OTHER)
    found = manager.get_conflict_history()
    assert len(found) == 100
    assert (found[0].existing_selector, found[0].new_selector) == (TAG, OTHER)
    assert len(manager.get_conflict_history(limit=5000)) == 1000
    manager.clear_conflict_history()
    assert manager.get_conflict_history() == []
    return "the newest 1,000 conflicts are kept; the document keeps all"


@row(MANAGER, "many threads")
def threads(stage: Stage) -> str | None:
    manager = api.SubscriptionManager(max_subscriptions=1000)

    def work(part: int) -> None:
        for number in range(50):
            manager.subscribe(f"t{part}_{number}", TAG)

    workers = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert manager.metrics.total_subscriptions == manager.get_subscription_count() == 400
    return None


@row(MANAGER, "SubscriptionEntry", "SubscriptionConflict", "SubscriptionData")
def records(stage: Stage) -> str | None:
    data = api.SubscriptionData.from_selector("t", TAG)
    assert (data.topic, data.expression_type, data.sub_string) == ("t", "TAG", TAG.expression)
    assert api.SubscriptionData.from_dict(data.to_dict()) == data
    now = datetime.now()
    entry = api.SubscriptionEntry("t", TAG, data, now, now)
    assert entry.is_active and entry.to_dict()["topic"] == "t"
    entry.update_timestamp()
    assert entry.updated_at.timestamp() >= now.timestamp()
    api.SubscriptionConflict("t", TAG, OTHER, "EXPRESSION_MISMATCH", now)  # type: ignore[arg-type]
    return None


@row(MANAGER, "created_at and updated_at")
def times(stage: Stage) -> str | None:
    manager = _manager()
    entry = manager.get_subscription("order_topic")
    assert entry is not None and entry.created_at <= entry.updated_at <= datetime.now(UTC)
    entry.is_active = False
    assert len(manager.get_active_subscriptions()) == 1
    return "they have a zone (UTC), and entries are copies: the manager's methods change them"


# -- its metrics ---------------------------------------------------------------------------------

COUNTS = [
    "total_subscriptions",
    "active_subscriptions",
    "added_subscriptions",
    "removed_subscriptions",
    "updated_subscriptions",
    "conflicts",
    "deactivated_subscriptions",
    "activated_subscriptions",
    "cleaned_subscriptions",
]
TABLES = ["conflict_types", "topic_subscription_counts", "selector_type_counts"]


@row(METRICS, *COUNTS, *TABLES, "to_dict")
def metrics(stage: Stage) -> str | None:
    found = api.SubscriptionMetrics().to_dict()
    assert found == {**dict.fromkeys(COUNTS, 0), **{name: {} for name in TABLES}}
    manager = _manager()
    manager.subscribe("other", SQL)
    manager.deactivate_subscription("other")
    now = manager.metrics
    assert (now.total_subscriptions, now.active_subscriptions) == (2, 1)
    assert now.selector_type_counts == {"TAG": 1, "SQL92": 1}
    return None


@row(METRICS, "metrics")
def copied(stage: Stage) -> str | None:
    manager = _manager()
    before = manager.metrics
    manager.subscribe("other", SQL)
    assert (before.total_subscriptions, manager.metrics.total_subscriptions) == (1, 2)
    return "it is a copy with the totals of that moment; read the property again"


@row(
    METRICS, "record_subscription_added", "record_subscription_removed",
    "record_subscription_updated", "record_subscription_deactivated",
    "record_subscription_activated", "record_selector_updated", "record_conflict",
    "record_subscriptions_cleaned", "record_all_cleared", "update_current_stats",
)  # fmt: skip
def recorders(stage: Stage) -> str | None:
    counts = api.SubscriptionMetrics()
    counts.record_subscription_added("u")
    counts.record_subscription_added("u")
    counts.record_subscription_removed("u")
    assert counts.topic_subscription_counts == {"u": 1}
    counts = api.SubscriptionMetrics()
    counts.record_subscription_added("t")
    counts.record_subscription_updated("t")
    counts.record_selector_updated("t")
    counts.record_subscription_deactivated("t")
    counts.record_subscription_activated("t")
    counts.record_conflict("EXPRESSION_MISMATCH")
    counts.record_subscriptions_cleaned(3)
    counts.record_subscription_removed("t")
    assert (counts.added_subscriptions, counts.updated_subscriptions) == (1, 2)
    assert (counts.conflicts, counts.conflict_types) == (1, {"EXPRESSION_MISMATCH": 1})
    assert (counts.cleaned_subscriptions, counts.removed_subscriptions) == (3, 1)
    counts.update_current_stats(_manager().get_all_subscriptions())
    assert counts.total_subscriptions == 1
    counts.record_all_cleared()
    assert counts.total_subscriptions == 0
    return None


# -- exceptions ----------------------------------------------------------------------------------


@row(
    ERRORS, "SubscriptionError", "InvalidTopicError", "InvalidSelectorError",
    "TopicNotSubscribedError", "SubscriptionConflictError", "SubscriptionLimitExceededError",
)  # fmt: skip
def exceptions(stage: Stage) -> str | None:
    for name in ROWS[ERRORS]:
        assert issubclass(getattr(api, name), api.SubscriptionError)
    return None
