"""Topics as a library: in a MySQL or MariaDB database without a broker, or in a broker.

from headrace import topics

with topics.open("mysql://user:password@127.0.0.1:3306/db") as store:
    store.create("orders")
    store.producer("orders", token="web").append(b"...", priority="high", ref_key="order-1")
    consumer = store.consumer("orders", token="worker-1", group="billing")
    batch = consumer.read(100, wait=5.0)
    consumer.commit(batch)
"""

from headrace.errors import (
    BadTopicName,
    BadTopicValue,
    BodyTooLarge,
    BrokerError,
    ClaimLost,
    EngineUnavailable,
    NoSuchTopic,
    TopicConflict,
)
from headrace.topics.consumer import Consumer
from headrace.topics.messages import Batch, Lag, Message, NewMessage
from headrace.topics.producer import Producer
from headrace.topics.store import Store, Topic
from headrace.topics.store import open_store as open

__all__ = [
    "BadTopicName",
    "BadTopicValue",
    "Batch",
    "BodyTooLarge",
    "BrokerError",
    "ClaimLost",
    "Consumer",
    "EngineUnavailable",
    "Lag",
    "Message",
    "NewMessage",
    "NoSuchTopic",
    "Producer",
    "Store",
    "Topic",
    "TopicConflict",
    "open",
]
