"""Every name of the original API can be imported from one place."""

from __future__ import annotations

from dataclasses import fields

import pytest

from headrace import rocketmq

NAMES = [
    "ConsumerConfig",
    "ConsumeFromWhere",
    "AllocateQueueStrategy",
    "ConsumeResult",
    "ReadOffsetType",
    "MessageModel",
    "BaseConsumer",
    "ConcurrentConsumer",
    "AsyncConcurrentConsumer",
    "OrderlyConsumer",
    "AsyncOrderlyConsumer",
    "TransactionConsumer",
    "MessageListener",
    "AverageAllocateStrategy",
    "HashAllocateStrategy",
    "ConsumeFromWhereManager",
    "MessageSelector",
    "is_tag_type",
    "create_tag_selector",
    "create_sql_selector",
    "SubscriptionManager",
    "SubscriptionEntry",
    "SubscriptionConflict",
    "SubscriptionData",
    "SubscriptionMetrics",
    "SubscriptionError",
    "InvalidTopicError",
    "InvalidSelectorError",
    "TopicNotSubscribedError",
    "SubscriptionConflictError",
    "SubscriptionLimitExceededError",
    "OffsetStore",
    "OffsetEntry",
    "RemoteOffsetStore",
    "LocalOffsetStore",
    "ProcessQueue",
    "Producer",
    "AsyncProducer",
    "TransactionProducer",
    "Message",
    "MessageExt",
    "MessageQueue",
]
METHODS = {
    "BaseConsumer": "start shutdown subscribe register_message_listener running",
    "ConcurrentConsumer": "start shutdown",
    "AsyncOrderlyConsumer": "start shutdown",
    "MessageListener": "consume_message",
    "AverageAllocateStrategy": "allocate",
    "ConsumeFromWhereManager": "get_consume_offset",
    "MessageSelector": "by_tag by_sql from_dict to_dict validate",
    "SubscriptionManager": """subscribe unsubscribe update_selector get_subscription
        get_all_subscriptions get_active_subscriptions is_subscribed get_subscription_count
        to_subscription_data_list from_subscription_data_list export_subscriptions
        import_subscriptions clear_all deactivate_subscription activate_subscription
        cleanup_inactive_subscriptions validate_subscription get_conflict_history
        clear_conflict_history metrics""",
    "SubscriptionEntry": "update_timestamp to_dict",
    "SubscriptionData": "from_selector from_dict",
    "SubscriptionMetrics": """to_dict record_subscription_added record_subscription_removed
        record_subscription_updated record_subscription_deactivated
        record_subscription_activated record_selector_updated record_conflict
        record_subscriptions_cleaned record_all_cleared update_current_stats""",
    "OffsetStore": "load update_offset persist persist_all read_offset",
    "RemoteOffsetStore": "load update_offset persist persist_all read_offset",
    "LocalOffsetStore": "load update_offset persist persist_all read_offset import_file",
}
FIELDS = {
    "SubscriptionEntry": "topic selector subscription_data created_at updated_at is_active",
    "SubscriptionConflict": "topic existing_selector new_selector conflict_type timestamp",
    "SubscriptionData": "topic expression_type sub_string",
    "OffsetEntry": "queue offset last_update_timestamp",
    "MessageSelector": "type expression",
    "SubscriptionMetrics": """total_subscriptions active_subscriptions added_subscriptions
        removed_subscriptions updated_subscriptions conflicts deactivated_subscriptions
        activated_subscriptions cleaned_subscriptions conflict_types topic_subscription_counts
        selector_type_counts""",
}
MEMBERS = {
    "ConsumeFromWhere": {
        "CONSUME_FROM_LAST_OFFSET": "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET": "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP": "CONSUME_FROM_TIMESTAMP",
    },
    "AllocateQueueStrategy": {
        "AVERAGE": "AVG",
        "AVERAGE_BY_CIRCLE": "AVG_BY_CIRCLE",
        "HASH": "HASH",
        "CONSISTENT_HASH": "CONSISTENT_HASH",
        "CONFIGURATION": "CONFIGURATION",
        "MACHINE_ROOM": "MACHINE_ROOM",
    },
    "ConsumeResult": {
        "SUCCESS": "CONSUME_SUCCESS",
        "RECONSUME_LATER": "RECONSUME_LATER",
        "COMMIT": "COMMIT",
        "ROLLBACK": "ROLLBACK",
        "SUSPEND_CURRENT_QUEUE_A_MOMENT": "SUSPEND_CURRENT_QUEUE_A_MOMENT",
    },
    "ReadOffsetType": {
        "MEMORY_FIRST_THEN_STORE": "MEMORY_FIRST_THEN_STORE",
        "READ_FROM_MEMORY": "READ_FROM_MEMORY",
        "READ_FROM_STORE": "READ_FROM_STORE",
    },
    "MessageModel": {"CLUSTERING": "CLUSTERING", "BROADCASTING": "BROADCASTING"},
    "SelectorType": {"TAG": "TAG", "SQL92": "SQL92"},
    "ConflictType": {
        "SELECTOR_TYPE_MISMATCH": "SELECTOR_TYPE_MISMATCH",
        "EXPRESSION_MISMATCH": "EXPRESSION_MISMATCH",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_original_api_is_there(name: str) -> None:
    assert name in rocketmq.__all__
    assert getattr(rocketmq, name).__doc__ or name == "HashAllocateStrategy"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_the_original_api_is_there(name: str) -> None:
    kind = getattr(rocketmq, name)
    assert [one for one in METHODS[name].split() if not hasattr(kind, one)] == []


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_the_original_api_is_there(name: str) -> None:
    there = [one.name for one in fields(getattr(rocketmq, name))]
    assert there[: len(FIELDS[name].split())] == FIELDS[name].split()


@pytest.mark.parametrize(
    "name", [one for one in NAMES if one.endswith("Error") and one != "SubscriptionError"]
)
def test_every_error_of_subscriptions_is_one(name: str) -> None:
    assert issubclass(getattr(rocketmq, name), rocketmq.SubscriptionError)


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_of_the_enumerations_has_its_value(name: str) -> None:
    kind = getattr(rocketmq, name)
    assert {one.name: one.value for one in kind} == MEMBERS[name]
    assert all(kind(value) == value for value in MEMBERS[name].values())


def test_the_names_on_offer_exist() -> None:
    assert [name for name in rocketmq.__all__ if not hasattr(rocketmq, name)] == []
