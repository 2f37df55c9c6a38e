"""A RocketMQ SDK in pure Python: producers and every kind of consumer.

Works against Apache RocketMQ 4.9 and 5.x over the remoting protocol, and against Headrace.
"""

from headrace.rocketmq.config import ConsumerConfig, ProducerConfig
from headrace.rocketmq.consumers import (
    AsyncConcurrentConsumer,
    AsyncOrderlyConsumer,
    BaseConsumer,
    ConcurrentConsumer,
    OrderlyConsumer,
    TransactionConsumer,
)
from headrace.rocketmq.consuming.allocation import (
    AllocateStrategy,
    AverageAllocateStrategy,
    AverageByCircleAllocateStrategy,
    ConfigurationAllocateStrategy,
    ConsistentHashAllocateStrategy,
    HashAllocateStrategy,
    MachineRoomAllocateStrategy,
)
from headrace.rocketmq.consuming.listeners import ConsumeContext, MessageListener
from headrace.rocketmq.consuming.process_queue import ProcessQueue
from headrace.rocketmq.consuming.rebalance import ConsumeFromWhereManager
from headrace.rocketmq.enums import (
    AllocateQueueStrategy,
    ConflictType,
    ConsumeFromWhere,
    ConsumeResult,
    LocalTransactionState,
    MessageModel,
    OffsetFileFormat,
    ReadOffsetType,
    SelectorType,
    SendStatus,
)
from headrace.rocketmq.errors import (
    BodyError,
    BrokerError,
    ConfigurationError,
    ConnectError,
    ConnectionLostError,
    ForkError,
    InvalidMessageError,
    InvalidSelectorError,
    InvalidTopicError,
    ListenerError,
    MessagesGoneError,
    NameServerError,
    OffsetFileError,
    OffsetStoreError,
    RemotingError,
    RequestTimeoutError,
    RocketMQError,
    SendError,
    StateError,
    SubscriptionConflictError,
    SubscriptionError,
    SubscriptionLimitExceededError,
    TopicNotFoundError,
    TopicNotSubscribedError,
)
from headrace.rocketmq.message import Message, MessageExt
from headrace.rocketmq.metrics import ConsumerMetrics, Health, ProducerMetrics, State
from headrace.rocketmq.offsets.local import LocalOffsetStore
from headrace.rocketmq.offsets.offset_store import OffsetEntry, OffsetStore
from headrace.rocketmq.offsets.remote import RemoteOffsetStore
from headrace.rocketmq.producer import AsyncProducer, Producer
from headrace.rocketmq.producing.send_requests import SendResult
from headrace.rocketmq.queue_reader import QueueReader
from headrace.rocketmq.selector import (
    MessageSelector,
    create_sql_selector,
    create_tag_selector,
    is_tag_type,
)
from headrace.rocketmq.subscriptions.manager import SubscriptionManager
from headrace.rocketmq.subscriptions.records import (
    SubscriptionConflict,
    SubscriptionData,
    SubscriptionEntry,
    SubscriptionMetrics,
)
from headrace.rocketmq.transaction_producer import (
    TransactionListener,
    TransactionProducer,
    TransactionSendResult,
)
from headrace.wire.remoting.message_queue import MessageQueue

__all__ = [
    "AllocateQueueStrategy",
    "AllocateStrategy",
    "AsyncConcurrentConsumer",
    "AsyncOrderlyConsumer",
    "AsyncProducer",
    "AverageAllocateStrategy",
    "AverageByCircleAllocateStrategy",
    "BaseConsumer",
    "BodyError",
    "BrokerError",
    "ConcurrentConsumer",
    "ConfigurationAllocateStrategy",
    "ConfigurationError",
    "ConflictType",
    "ConnectError",
    "ConnectionLostError",
    "ConsistentHashAllocateStrategy",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeFromWhereManager",
    "ConsumeResult",
    "ConsumerConfig",
    "ConsumerMetrics",
    "ForkError",
    "HashAllocateStrategy",
    "Health",
    "InvalidMessageError",
    "InvalidSelectorError",
    "InvalidTopicError",
    "ListenerError",
    "LocalOffsetStore",
    "LocalTransactionState",
    "MachineRoomAllocateStrategy",
    "Message",
    "MessageExt",
    "MessageListener",
    "MessageModel",
    "MessageQueue",
    "MessageSelector",
    "MessagesGoneError",
    "NameServerError",
    "OffsetEntry",
    "OffsetFileError",
    "OffsetFileFormat",
    "OffsetStore",
    "OffsetStoreError",
    "OrderlyConsumer",
    "ProcessQueue",
    "Producer",
    "ProducerConfig",
    "ProducerMetrics",
    "QueueReader",
    "ReadOffsetType",
    "RemoteOffsetStore",
    "RemotingError",
    "RequestTimeoutError",
    "RocketMQError",
    "SelectorType",
    "SendError",
    "SendResult",
    "SendStatus",
    "State",
    "StateError",
    "SubscriptionConflict",
    "SubscriptionConflictError",
    "SubscriptionData",
    "SubscriptionEntry",
    "SubscriptionError",
    "SubscriptionLimitExceededError",
    "SubscriptionManager",
    "SubscriptionMetrics",
    "TopicNotFoundError",
    "TopicNotSubscribedError",
    "TransactionConsumer",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "create_sql_selector",
    "create_tag_selector",
    "is_tag_type",
]
