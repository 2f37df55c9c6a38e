"""Topics as RocketMQ clients see them: the log topics of the vhost `/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.parameters import TOPIC_SETTINGS
from headrace.core.topics.log_topic import LogTopic
from headrace.errors import (
    AccessRefused,
    BadTopicValue,
    MalformedError,
    NoSuchTopic,
    PreconditionFailed,
)
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.server.remoting.message_mapping import (
    REAL_PRIORITY,
    TopicRecord,
    each_entry,
    encode_record,
    physical_offset,
    queue_id_of,
    read_queues,
    sent_bytes,
    split_physical,
    take_record,
    whole_number,
)
from headrace.server.remoting.send_batcher import AppendedRange
from headrace.store.topics.types import TopicSpec
from headrace.wire.remoting import properties
from headrace.wire.remoting.codes import Perm
from headrace.wire.remoting.headers.admin import TopicConfig
from headrace.wire.remoting.message_ids import HostAddress, host_bytes
from headrace.wire.remoting.names import check_topic, is_dead_letter_topic, is_retry_topic

TEMPLATE_QUEUES = 8  # of TBW102, which new topics are made like
MAX_QUEUES = 1024
Target = tuple[LogTopic, Partition, TopicRecord]  # where a message of a hidden topic goes
MAX_MOVED = 10_000  # delivered delayed messages that their producer's offset id finds


class TopicSettings:
    """What administrators have set for topics, kept as parameters of the vhost."""

    def __init__(self, broker: Broker) -> None:
        self._parameters = broker.parameters

    def find(self, topic: LogTopic) -> TopicConfig | None:
        """None for the defaults, which nearly all topics have."""
        found = self._parameters.find(DEFAULT_VHOST, TOPIC_SETTINGS, topic.name)
        if found is None:
            return None
        try:
            return TopicConfig.take(found.value)
        except MalformedError:  # written by another program
            return None

    def get(self, topic: LogTopic) -> TopicConfig:
        """With the numbers of queues that clients see."""
        default = TopicConfig(topic.name, read_queues(topic), topic.queues)
        found = self.find(topic)
        if found is None:
            return default
        reads = found.read_queues if default.read_queues == topic.queues else default.read_queues
        writes = min(found.write_queues, topic.queues)
        return replace(found, name=topic.name, read_queues=reads, write_queues=writes)

    def set(self, topic: LogTopic, config: TopicConfig) -> None:
        if config == TopicConfig(topic.name, topic.queues, topic.queues):
            self._parameters.clear(DEFAULT_VHOST, TOPIC_SETTINGS, topic.name)
        elif config != self.find(topic):
            self._parameters.set(DEFAULT_VHOST, TOPIC_SETTINGS, topic.name, config.as_map())

    def check(self, topic: LogTopic, wanted: Perm, queue_id: int) -> None:
        """AccessRefused without the permission, BadTopicValue for a queue beyond the limits."""
        config = self.find(topic)
        if config is None:
            return
        if not config.perm & wanted:
            missing = f"{wanted.name} ({int(wanted)})"
            raise AccessRefused(f"topic '{topic.name}' has perm {config.perm}, without {missing}")
        limit = config.read_queues
        if wanted is Perm.WRITE:
            limit = max(limit, config.write_queues)
        if limit <= queue_id < topic.queues:
            raise BadTopicValue(f"topic '{topic.name}' has no queue {queue_id}: only {limit} now")


class FoundMessage(NamedTuple):
    """A message read by its physical offset."""

    topic: LogTopic
    track: Partition
    number: int  # of the track in the log
    offset: int
    time: int
    record: TopicRecord

    @property
    def physical(self) -> int:
        return physical_offset(self.number, self.offset)

    def encode(self, store_host: HostAddress) -> bytes:
        """The message as pulls return it."""
        return sent_bytes(
            self.record,
            self.topic.name.encode(),
            queue_id_of(self.topic, self.track),
            self.offset,
            self.physical,
            self.time,
            host_bytes(store_host),
        )


class RemotingTopics:
    """Finds, creates and reads topics; ``on_append`` is called with a topic's name."""

    def __init__(self, broker: Broker, on_append: Callable[[str], None]) -> None:
        self._broker = broker
        self._on_append = on_append
        self._watched: dict[str, LogTopic] = {}
        self._by_number: dict[int, LogTopic] = {}
        self.settings = TopicSettings(broker)
        self._moved: dict[int, int] = {}  # physical offsets: while it was delayed, and now

    @property
    def by_name(self) -> Mapping[str, LogTopic]:
        return self._broker.vhosts[DEFAULT_VHOST].topics.log.by_name

    def find(self, name: str) -> LogTopic | None:
        """The topic; from now on appends to it, of any protocol, are reported. PreconditionFailed
        for a topic of another engine: None would say that it is empty, or may be created."""
        topic = self.by_name.get(name)
        if topic is None:
            self._refuse_other_engine(name)
        elif self._watched.get(name) is not topic:
            self._watched[name] = topic
            topic.when_appended(lambda: self._on_append(name))
        return topic

    def get(self, name: str) -> LogTopic:
        topic = self.find(name)
        if topic is None:
            raise NoSuchTopic(f"no topic '{name}'; create it, or set auto_create_topics")
        return topic

    def ensure(self, name: str, queues: int) -> LogTopic:
        """The topic, created if it does not exist. The name has been checked."""
        found = self.find(name)
        if found is not None:
            return found
        topics = self._broker.vhosts[DEFAULT_VHOST].topics
        topics.log.make(TopicSpec(name, min(max(queues, 1), MAX_QUEUES)))
        made = self.get(name)
        self._on_append(name)
        return made

    def _refuse_other_engine(self, name: str) -> None:
        """With a code that clients do not retry: ids of other engines are not dense per queue."""
        for engine in self._broker.vhosts[DEFAULT_VHOST].topics.engines.values():
            if engine.knows(name):
                raise PreconditionFailed(
                    f"topic '{name}' is stored by engine '{engine.name}', which RocketMQ clients "
                    "cannot use; choose another name, or use the native client"
                )

    def delete(self, name: str) -> None:
        self.get(name)
        self._broker.vhosts[DEFAULT_VHOST].topics.log.delete(name)

    def destination_of(self, record: TopicRecord) -> tuple[LogTopic, Partition]:
        """Where a message of a hidden topic belongs; NoSuchTopic when the topic was deleted
        meanwhile. Topics of retries and dead letters are created whenever they are needed."""
        given = record.properties
        name = given.get(properties.REAL_TOPIC, "")
        if is_retry_topic(name) or is_dead_letter_topic(name):
            check_topic(name)
            topic = self.ensure(name, 1)
        else:
            topic = self.get(name)
        queue_id = whole_number(given.get(properties.REAL_QUEUE_ID)) or 0
        priority = Priority.__members__.get(given.get(REAL_PRIORITY, ""), Priority.MIDDLE)
        return topic, Partition(priority, queue_id % topic.queues)

    # -- hidden topics --------------------------------------------------------------------------

    def hide(self, name: str, queues: int, track: Partition, record: TopicRecord) -> AppendedRange:
        """Store a message in a hidden topic, which is created if it does not exist."""
        hidden = self.ensure(name, queues)
        offset, position = hidden.append_to(track, [encode_record(record)])
        number = hidden.number_of(track)
        assert number is not None, "something was appended"
        return AppendedRange(number, offset, position)

    def release(
        self, number: int, targets: list[tuple[int, Target | None]], *, keep_ids: bool = False
    ) -> int:
        """Move messages of the hidden partition ``number``, all in one step; the position.

        A message without a target is dropped. ``keep_ids``: their old offset ids find them.
        """
        storage = self._broker.storage
        assert storage.log is not None, "they were read from there"
        with storage.atomic():
            for offset, target in targets:
                if target is not None:
                    topic, track, record = target
                    at, _ = topic.append_to(track, [encode_record(record)])
                    if keep_ids:
                        physical = physical_offset(topic.number_of(track) or 0, at)
                        self._note_move(physical_offset(number, offset), physical)
            storage.log.settle(number, [offset for offset, _ in targets])
        return storage.position()

    def has_unread(self, topic: LogTopic, track: Partition) -> bool:
        """Whether something was appended that is not on disk yet, so it cannot be read."""
        number, log = topic.number_of(track), self._broker.storage.log
        if number is None or log is None:
            return False
        return log.reads.next_offset(number) > topic.bound(track).end

    def _note_move(self, waiting: int, delivered: int) -> None:
        """A message got another physical offset: the one that its producer knows finds it too."""
        self._moved[waiting] = delivered
        if len(self._moved) > MAX_MOVED:
            del self._moved[next(iter(self._moved))]

    def find_message(self, physical: int) -> FoundMessage | None:
        """The message at a physical offset; None if it does not exist, or no longer."""
        physical = self._moved.get(physical, physical)
        number, offset = split_physical(physical)
        topic = self._of_number(number)
        if topic is None or physical < 0:
            return None
        track = topic.numbers()[number]
        loaded, _ = topic.load(track, offset, offset + 1, 1)
        for at, time, content in each_entry(loaded):
            if at == offset:
                return FoundMessage(topic, track, number, offset, time, take_record(content))
        return None

    def _of_number(self, number: int) -> LogTopic | None:
        topic = self._by_number.get(number)
        if topic is None or topic.deleted:
            for topic in self.by_name.values():
                self._by_number.update(dict.fromkeys(topic.numbers(), topic))
            topic = self._by_number.get(number)
        return None if topic is None or topic.deleted else topic
