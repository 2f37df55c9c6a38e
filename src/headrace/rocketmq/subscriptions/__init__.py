"""What a consumer is subscribed to: the manager, its records and its metrics."""

from headrace.rocketmq.subscriptions.manager import SubscriptionManager
from headrace.rocketmq.subscriptions.records import (
    SubscriptionConflict,
    SubscriptionData,
    SubscriptionEntry,
    SubscriptionMetrics,
)

__all__ = [
    "SubscriptionConflict",
    "SubscriptionData",
    "SubscriptionEntry",
    "SubscriptionManager",
    "SubscriptionMetrics",
]
