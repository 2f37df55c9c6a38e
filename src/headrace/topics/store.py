"""A store of topics: creates, lists and deletes them, makes producers and consumers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.closing import Closing
from headrace.errors import BadTopicValue, ConfigError
from headrace.model.retention import Retention, parse_retention
from headrace.model.topics.message_priority import BY_URGENCY
from headrace.model.topics.names import check_token
from headrace.store.topics.engine import TopicEngine
from headrace.store.topics.plugins import open_engine
from headrace.store.topics.types import (
    EARLIEST,
    LATEST,
    MAX_ATTEMPTS,
    ConsumerSpec,
    GroupInfo,
    TopicInfo,
    TopicSpec,
)
from headrace.topics.consumer import AppendSignal, Consumer
from headrace.topics.messages import seconds, when, whole
from headrace.topics.producer import Producer


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is."""

    name: str
    uuid: str
    engine: str
    queues: int
    retention: Retention | None
    created_at: datetime
    ids: dict[str, tuple[int, int]]
    """The ids that can be read, per priority: the first, and one behind the last. Of the first
    queue, where each queue has ids of its own."""
    counts: dict[str, int]
    """How many ids can be read, per priority, of all queues."""


class Store(Closing):
    """May be shared by threads. Close it, or use it in a `with` block."""

    def __init__(self, engine: TopicEngine) -> None:
        self.engine = engine
        """What is beneath: the calls of `headrace.store.topics.engine.TopicEngine`."""
        self._bell = AppendSignal()

    def __repr__(self) -> str:
        return f"<Store on {self.engine!r}>"

    # -- topics ----------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        queues: int = 1,
        retention: str | Retention | None = None,
        **options: object,
    ) -> Topic:
        """The topic, made if it is not there. ``retention`` is like "7d", "500MB" or both with a
        comma; ``options`` are the engine's own."""
        if isinstance(retention, str):
            kept = parse_retention(retention)
            if kept is None:
                raise BadTopicValue(
                    f"invalid retention {retention!r}: expected a duration, a size or both, "
                    "for example 7d, 500MB or 7d,500MB"
                )
            retention = kept
        elif retention is not None and not isinstance(retention, Retention):
            raise BadTopicValue(f"retention is text like 7d or 500MB, not {retention!r:.80}")
        whole("queues", queues)
        return _topic(self.engine.create(TopicSpec(name, queues, retention, options)))

    def delete(self, name: str) -> None:
        """The topic with all its messages and positions."""
        self.engine.delete(name)

    def describe(self, name: str) -> Topic:
        return _topic(self.engine.describe(name))

    def list(self) -> list[Topic]:
        return [_topic(one) for one in self.engine.topics()]

    def groups(self, topic: str) -> tuple[GroupInfo, ...]:
        """Groups, and consumers on their own (with an empty name)."""
        return tuple(self.engine.groups(topic))

    def forget_group(self, topic: str, group: str) -> None:
        """Delete its progress: it starts as a new group."""
        self.engine.forget_group(topic, ConsumerSpec("-", check_token(group, "group")))

    # -- who uses them ---------------------------------------------------------------------------

    def producer(self, topic: str, token: str) -> Producer:
        """NoSuchTopic when it is not there."""
        self.engine.describe(topic)
        return Producer(self.engine, self._bell, topic, token)

    def consumer(
        self,
        topic: str,
        token: str,
        group: str | None = None,
        *,
        lease: float = 30.0,
        min_share: int = 0,
        start: str = EARLIEST,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> Consumer:
        """A consumer on its own, or a member of a group.

        ``lease``: seconds until what was read and not committed goes to another member;
        ``min_share``: percent of each batch that lower priorities get at least;
        ``start``: where a new consumer or group begins, "earliest" or "latest";
        ``max_attempts``: a message handed out that often and not done is dead.
        """
        self.engine.describe(topic)
        check_token(token)
        if group is not None:
            check_token(group, "group")
        seconds("lease", lease)
        whole("min_share", min_share)
        whole("max_attempts", max_attempts)
        if start not in (EARLIEST, LATEST):
            raise BadTopicValue(f"start {start!r} is unknown: earliest or latest")
        if lease < 0.001 or max_attempts < 1 or not 0 <= min_share <= 50:
            raise BadTopicValue(
                "a lease is from 0.001 s on, max_attempts from 1 on, min_share 0 to 50 percent"
            )
        reader = ConsumerSpec(token, group, start, round(lease * 1000), min_share, max_attempts)
        return Consumer(self.engine, self._bell, topic, reader)

    # -- life ------------------------------------------------------------------------------------

    def close(self) -> None:
        self.engine.close()


def _topic(info: TopicInfo) -> Topic:
    return Topic(
        info.name,
        info.uuid,
        info.engine,
        info.queues,
        info.retention,
        when(info.created_at),
        {
            priority.label: (one.first, one.end)
            for priority in BY_URGENCY
            for one in info.parts
            if one.priority is priority and one.partition_index == 0
        },
        {
            priority.label: sum(
                one.end - one.first for one in info.parts if one.priority is priority
            )
            for priority in BY_URGENCY
        },
    )


def open_store(url: str) -> Store:
    """The topics at a URL:

    `mysql://user:password@host:3306/database`: a MySQL or MariaDB database, without a broker;
    `headrace://user:password@host:9090/vhost`: a broker, over the native protocol
    (`headraces://` with TLS);
    `memory:`: in this process and gone with it, for tests;
    other schemes: engines that packages register, see `headrace.topics.engines`.
    """
    # Engines are imported when they are used: none needs what only another one does.
    scheme = url.partition(":")[0]
    if scheme == "mysql":
        from headrace.store.mysql.engine import MySqlEngine

        return Store(MySqlEngine(url))
    if scheme in ("headrace", "headraces"):
        return Store(_remote(url))
    if url == "memory:":
        from headrace.store.topics.memory import MemoryEngine

        return Store(MemoryEngine())
    return Store(open_engine(url, "mysql://, headrace://, memory:"))


def _remote(url: str) -> TopicEngine:
    from headrace.client import ConnectionFactory
    from headrace.topics.remote_engine import connect

    try:
        factory = ConnectionFactory.from_url(url)
    except ValueError as error:
        raise ConfigError(f"the URL of the broker: {error}") from None
    return connect(factory)
