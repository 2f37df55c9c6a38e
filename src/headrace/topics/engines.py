"""What a topic engine of your own is made of; see docs/topic-engines.md.

An engine implements `TopicEngine`. One that keeps messages and positions itself derives from
`LocalEngine` and `LocalTopic`, which have everything but the storage.
"""

from headrace.errors import BadTopicValue, ConfigError, EngineUnavailable, NoSuchTopic
from headrace.model.retention import Retention, parse_retention
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Bound, Partition, message_id
from headrace.model.topics.retries import Place, Retry
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.entry import encode_entries
from headrace.store.topics.groups import PartitionCursor, ProgressStore, ReaderKey, TopicGroups
from headrace.store.topics.local_engine import LocalEngine, LocalTopic, wall_ms
from headrace.store.topics.reads import LoadedEntries
from headrace.store.topics.types import ConsumerSpec, Entry, TopicInfo, TopicSpec

__all__ = [
    "BadTopicValue",
    "Bound",
    "ConfigError",
    "ConsumerSpec",
    "EngineUnavailable",
    "Entry",
    "LoadedEntries",
    "LocalEngine",
    "LocalTopic",
    "NoSuchTopic",
    "Partition",
    "PartitionCursor",
    "Place",
    "Priority",
    "ProgressStore",
    "ReaderKey",
    "Retention",
    "Retry",
    "TopicEngine",
    "TopicGroups",
    "TopicInfo",
    "TopicSpec",
    "encode_entries",
    "message_id",
    "parse_retention",
    "wall_ms",
]
