"""Topics in a database for those who read and write in bulk: what the Spark source uses."""

from headrace.model.topics.message_priority import Priority
from headrace.store.topics.engine import Entry
from headrace.topics.topic_tables import LaneBounds, TopicTables

__all__ = ["Entry", "LaneBounds", "Priority", "TopicTables"]
