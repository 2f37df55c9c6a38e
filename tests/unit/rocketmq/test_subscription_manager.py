"""The SubscriptionManager: every method, and the eight corrections of the original one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread

import pytest

from headrace.rocketmq import (
    ConflictType,
    InvalidSelectorError,
    InvalidTopicError,
    MessageSelector,
    SubscriptionConflictError,
    SubscriptionData,
    SubscriptionError,
    SubscriptionLimitExceededError,
    SubscriptionManager,
    TopicNotSubscribedError,
)

RED = MessageSelector.by_tag("red")
BLUE = MessageSelector.by_tag("blue")
SQL = MessageSelector.by_sql("price > 100")


@pytest.fixture
def manager() -> SubscriptionManager:
    return SubscriptionManager()


def test_subscribe_and_ask(manager: SubscriptionManager) -> None:
    assert manager.subscribe("orders", RED) is True
    entry = manager.get_subscription("orders")
    assert entry is not None
    assert (entry.topic, entry.selector, entry.is_active) == ("orders", RED, True)
    assert entry.subscription_data.tags_set == ("red",)
    assert manager.is_subscribed("orders")
    assert not manager.is_subscribed("others")
    assert manager.get_subscription("others") is None
    assert manager.get_subscription_count() == 1


def test_a_text_is_a_tag_expression(manager: SubscriptionManager) -> None:
    manager.subscribe("orders", "a || b")
    entry = manager.get_subscription("orders")
    assert entry is not None and entry.selector == MessageSelector.by_tag("a || b")


def test_an_entry_that_was_handed_out_cannot_change_the_manager(
    manager: SubscriptionManager,
) -> None:
    manager.subscribe("orders", RED)
    entry = manager.get_subscription("orders")
    assert entry is not None
    entry.is_active = False
    assert len(manager.get_active_subscriptions()) == 1


@pytest.mark.parametrize("topic", ["", "  ", "x" * 128, "DEFAULT_TOPIC", "SYS_thing", None, 5])
def test_bad_topics(manager: SubscriptionManager, topic: str) -> None:
    with pytest.raises(InvalidTopicError):
        manager.subscribe(topic, RED)
    assert manager.validate_subscription(topic, RED) is False


@pytest.mark.parametrize(
    "selector",
    [
        None,
        7,
        MessageSelector.by_sql(""),
        MessageSelector.by_tag("||"),
        MessageSelector.by_tag("a || *"),
        MessageSelector.by_tag("a|b"),
    ],
)
def test_bad_selectors(manager: SubscriptionManager, selector: MessageSelector) -> None:
    with pytest.raises(InvalidSelectorError):
        manager.subscribe("orders", selector)
    assert manager.validate_subscription("orders", selector) is False


def test_checks_come_in_the_order_topic_selector_limit_conflict() -> None:
    manager = SubscriptionManager(max_subscriptions=1)
    manager.subscribe("a", RED)
    with pytest.raises(InvalidTopicError):
        manager.subscribe("", MessageSelector.by_sql(""))
    with pytest.raises(InvalidSelectorError):
        manager.subscribe("b", MessageSelector.by_sql(""))
    with pytest.raises(SubscriptionLimitExceededError):
        manager.subscribe("b", RED)
    with pytest.raises(SubscriptionConflictError):
        manager.subscribe("a", BLUE)


def test_renewing_at_the_limit_works() -> None:
    manager = SubscriptionManager(max_subscriptions=1)
    manager.subscribe("a", RED)
    assert manager.subscribe("a", RED)
    assert manager.metrics.updated_subscriptions == 1


def test_the_same_selector_again_makes_it_active(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    before = manager.get_subscription("a")
    manager.deactivate_subscription("a")
    manager.subscribe("a", RED)
    after = manager.get_subscription("a")
    assert before is not None and after is not None
    assert after.is_active
    assert after.updated_at >= before.updated_at
    assert after.created_at == before.created_at


def test_conflicts_are_recorded_and_counted(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    with pytest.raises(SubscriptionConflictError, match="update_selector"):
        manager.subscribe("a", BLUE)
    with pytest.raises(SubscriptionConflictError, match="unsubscribe"):
        manager.subscribe("a", SQL)
    first, second = manager.get_conflict_history()
    assert first.conflict_type is ConflictType.EXPRESSION_MISMATCH
    assert second.conflict_type == "SELECTOR_TYPE_MISMATCH"
    assert (second.existing_selector, second.new_selector) == (RED, SQL)
    assert manager.get_conflict_history(1) == [second]
    assert manager.get_conflict_history(0) == []
    assert manager.metrics.conflicts == 2
    assert manager.metrics.conflict_types == {
        "EXPRESSION_MISMATCH": 1,
        "SELECTOR_TYPE_MISMATCH": 1,
    }
    manager.clear_conflict_history()
    assert manager.get_conflict_history() == []


def test_update_selector_changes_the_expression(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    old = manager.get_subscription("a")
    assert manager.update_selector("a", BLUE) is True
    entry = manager.get_subscription("a")
    assert entry is not None and old is not None
    assert entry.selector == BLUE
    assert entry.subscription_data.sub_version > old.subscription_data.sub_version
    assert manager.metrics.conflicts == 0
    assert manager.metrics.updated_subscriptions == 1


def test_update_selector_to_another_type_is_a_counted_conflict(
    manager: SubscriptionManager,
) -> None:
    manager.subscribe("a", RED)
    with pytest.raises(SubscriptionConflictError):
        manager.update_selector("a", SQL)
    assert manager.metrics.conflicts == 1
    assert len(manager.get_conflict_history()) == 1


def test_update_selector_of_an_unknown_topic(manager: SubscriptionManager) -> None:
    with pytest.raises(TopicNotSubscribedError, match=r"^topic 'a' is not subscribed"):
        manager.update_selector("a", RED)


def test_unsubscribe(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    assert manager.unsubscribe("a") is True
    assert manager.unsubscribe("a") is False
    metrics = manager.metrics
    assert (metrics.added_subscriptions, metrics.removed_subscriptions) == (1, 1)
    assert metrics.topic_subscription_counts == {}


def test_inactive_subscriptions_are_kept_but_not_sent(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    manager.subscribe("b", SQL)
    assert manager.deactivate_subscription("a") is True
    assert manager.deactivate_subscription("unknown") is False
    found = manager.to_subscription_data_list()
    assert [(one.topic, one.is_active) for one in found] == [("a", False), ("b", True)]
    assert [one.topic for one in manager.get_active_subscriptions()] == ["b"]
    assert manager.get_subscription_count() == 2
    metrics = manager.metrics
    assert (metrics.total_subscriptions, metrics.active_subscriptions) == (2, 1)
    assert metrics.selector_type_counts == {"TAG": 1, "SQL92": 1}
    assert manager.activate_subscription("a") is True
    assert manager.activate_subscription("a") is True
    assert manager.activate_subscription("unknown") is False
    assert manager.metrics.activated_subscriptions == 1
    assert manager.metrics.deactivated_subscriptions == 1


def test_clean_up_drops_only_what_is_inactive_for_long(manager: SubscriptionManager) -> None:
    for topic in ("a", "b"):
        manager.subscribe(topic, RED)
    manager.deactivate_subscription("a")
    assert manager.cleanup_inactive_subscriptions() == 0
    assert manager.cleanup_inactive_subscriptions(timedelta(seconds=-1)) == 1
    assert not manager.is_subscribed("a")
    assert manager.is_subscribed("b")
    metrics = manager.metrics
    assert metrics.cleaned_subscriptions == 1
    assert metrics.topic_subscription_counts == {"b": 1}


def test_clear_all(manager: SubscriptionManager) -> None:
    for topic in ("a", "b"):
        manager.subscribe(topic, RED)
    manager.clear_all()
    metrics = manager.metrics
    assert manager.get_all_subscriptions() == []
    assert (metrics.removed_subscriptions, metrics.topic_subscription_counts) == (2, {})


def test_export_is_json_and_can_be_imported(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    manager.subscribe("b", SQL)
    manager.deactivate_subscription("b")
    with pytest.raises(SubscriptionConflictError):
        manager.subscribe("a", BLUE)
    exported = json.loads(json.dumps(manager.export_subscriptions()))
    assert set(exported) == {"subscriptions", "conflict_history", "export_time", "metrics"}
    other = SubscriptionManager()
    other.subscribe("gone", RED)
    other.import_subscriptions(exported)
    assert other.get_all_subscriptions() == manager.get_all_subscriptions()
    assert other.get_conflict_history() == manager.get_conflict_history()
    assert other.metrics == manager.metrics


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"subscriptions": [{}]},
        {"subscriptions": 5},
        {"subscriptions": [], "metrics": {"conflicts": "many"}},
        {"subscriptions": [], "metrics": {"conflict_types": {"x": -1}}},
        {"subscriptions": [], "metrics": {"unknown": 1}},
    ],
)
def test_a_bad_import_changes_nothing(manager: SubscriptionManager, data: dict[str, int]) -> None:
    manager.subscribe("a", RED)
    with pytest.raises(SubscriptionError, match="nothing was changed"):
        manager.import_subscriptions(data)
    assert manager.is_subscribed("a")


def test_an_import_is_newer_for_brokers_than_what_it_replaces(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    exported = manager.export_subscriptions()
    manager.update_selector("a", BLUE)
    (told,) = manager.to_subscription_data_list()
    manager.import_subscriptions(exported)
    (again,) = manager.to_subscription_data_list()
    assert (again.sub_string, told.sub_string) == ("red", "blue")
    assert again.sub_version > told.sub_version


def test_lists_of_subscription_data_replace_everything(manager: SubscriptionManager) -> None:
    manager.subscribe("gone", RED)
    manager.from_subscription_data_list(
        [
            SubscriptionData.from_selector("a", RED),
            {"topic": "b", "subString": "x > 1", "expressionType": "SQL92"},
        ]
    )
    assert sorted(one.topic for one in manager.get_all_subscriptions()) == ["a", "b"]
    assert manager.get_subscription("b").selector == MessageSelector.by_sql("x > 1")  # type: ignore[union-attr]


def test_the_history_of_conflicts_is_bounded(manager: SubscriptionManager) -> None:
    manager.subscribe("a", RED)
    for number in range(1100):
        with pytest.raises(SubscriptionConflictError):
            manager.subscribe("a", f"tag{number}")
    history = manager.get_conflict_history(5000)
    assert len(history) == 1000
    assert history[-1].new_selector.expression == "tag1099"


def test_changes_are_logged_and_renewals_are_not() -> None:
    told: list[int] = []
    manager = SubscriptionManager(on_change=lambda: told.append(1))
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: manager.subscribe("a", RED), 1),
        (lambda: manager.subscribe("a", RED), 0),
        (lambda: manager.update_selector("a", BLUE), 1),
        (lambda: manager.update_selector("a", BLUE), 0),
        (lambda: manager.deactivate_subscription("a"), 1),
        (lambda: manager.deactivate_subscription("a"), 0),
        (lambda: manager.unsubscribe("a"), 1),
        (lambda: manager.unsubscribe("a"), 0),
        (lambda: manager.clear_all(), 1),
    ]
    for step, expected in steps:
        told.clear()
        step()
        assert len(told) == expected


def test_metrics_have_twelve_keys(manager: SubscriptionManager) -> None:
    assert len(manager.metrics.to_dict()) == 12
    assert all(not value for value in manager.metrics.to_dict().values())


def test_sixteen_threads_and_a_hundred_thousand_subscriptions() -> None:
    threads, each = 16, 6250
    manager = SubscriptionManager(max_subscriptions=threads * each)
    start, failures = Barrier(threads), []

    def work(number: int) -> None:
        start.wait()
        try:
            for index in range(each):
                manager.subscribe(f"t{number}-{index}", RED if index % 2 else SQL)
                if index % 50 == 0:
                    manager.get_subscription_count()
            for index in range(0, each, 5):
                manager.unsubscribe(f"t{number}-{index}")
        except Exception as error:
            failures.append(error)

    workers = [Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert failures == []
    metrics = manager.metrics
    left = threads * each - threads * (each // 5)
    assert manager.get_subscription_count() == left == metrics.total_subscriptions
    assert metrics.removed_subscriptions == threads * (each // 5)
    assert metrics.added_subscriptions == threads * each
    assert len(manager.to_subscription_data_list()) == left
    manager.import_subscriptions(manager.export_subscriptions())
    assert manager.get_subscription_count() == left
