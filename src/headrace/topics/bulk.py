"""Topics in a database for those who read and write in bulk: what the Spark source uses."""

from headrace.model.topics.message_priority import Lane
from headrace.store.mysql.bulk import LaneBounds, TopicTables
from headrace.store.topics import Entry

__all__ = ["Entry", "Lane", "LaneBounds", "TopicTables"]
