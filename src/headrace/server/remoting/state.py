"""What all RocketMQ connections share: topics as they see them, groups, held pulls, delays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.core.topics.log_topic import LogTopic
from headrace.core.vhost import Vhost
from headrace.errors import AccessRefused, EngineUnavailable, NoSuchTopic
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Track
from headrace.server.remoting.client_requests import RelayedRequests
from headrace.server.remoting.delayed_messages import DelayedMessages
from headrace.server.remoting.group_settings import GroupSettings
from headrace.server.remoting.half_messages import HalfMessages
from headrace.server.remoting.long_polls import LongPolls
from headrace.server.remoting.membership import GroupMembership, QueueLocks
from headrace.server.remoting.message_mapping import REAL_LANE, TopicRecord
from headrace.server.remoting.send_batcher import TurnAppends
from headrace.server.remoting.statistics import RateCounters
from headrace.store.topics.types import TopicSpec
from headrace.wire.remoting import names, properties
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import ONEWAY, Command
from headrace.wire.remoting.headers.groups import NotifyConsumerIdsChanged
from headrace.wire.remoting.message_ids import HostAddress, as_v4

if TYPE_CHECKING:
    from headrace.server.remoting.session import Session

EXPIRY_SCAN_MS = 10_000
TEMPLATE_QUEUES = 8  # of TBW102, which new topics are made like
MAX_QUEUES = 1024


@dataclass(frozen=True, slots=True)
class RemotingSettings:
    """How the broker shows itself to RocketMQ clients."""

    user: str  # whom clients without a signature act as
    cluster: str = "DefaultCluster"
    broker_name: str = "headrace"
    advertise_host: str | None = None  # None: the address by which a client came
    auto_create: bool = True
    max_message: int = 16 << 20
    frame_max: int = 32 << 20


class RemotingState:
    """One per server. RocketMQ clients see the vhost `/` and its log topics."""

    def __init__(self, broker: Broker, settings: RemotingSettings) -> None:
        self.broker = broker
        self.settings = settings
        self.port = 0  # the broker's, once it listens
        self.members: GroupMembership[Session] = GroupMembership()
        self.locks = QueueLocks()
        self.groups = GroupSettings(broker)
        self.meters = RateCounters()
        self.started_ms = self.wall_ms()
        self.got_total = 0  # messages given to consumers
        self.polls = LongPolls(broker.timers)
        self.relays = RelayedRequests(broker.timers)
        self.appends = TurnAppends(broker.turn)
        self.delays = DelayedMessages(self)
        self.halves = HalfMessages(self)
        self._scanning = False
        self._watched: dict[str, LogTopic] = {}
        self._numbers: dict[int, LogTopic] = {}

    def start(self) -> None:
        self.vhost.topics.log.members_of = self._client_ids
        self.delays.start()
        self.halves.start()

    @property
    def vhost(self) -> Vhost:
        return self.broker.vhosts[DEFAULT_VHOST]

    def _client_ids(self, group: str) -> list[str]:
        found = self.members.groups.get(group)
        return found.client_ids() if found is not None else []

    def now_ms(self) -> int:
        """For waiting."""
        return self.broker.clock.now_ms()

    def wall_ms(self) -> int:
        """For writing down."""
        return int(self.broker.clock.wall_seconds() * 1000)

    def wall_of(self, ms: int) -> int:
        """A moment of now_ms() as one of wall_ms()."""
        return self.wall_ms() - (self.now_ms() - ms)

    def count(self, kind: str, key: str, amount: int) -> None:
        """For what consoles ask about the last minute, hour and day."""
        self.meters.add(kind, key, amount, self.wall_ms() // 60_000)

    # -- topics ---------------------------------------------------------------------------------

    def find_topic(self, name: str) -> LogTopic | None:
        """The topic, with an eye on what is appended to it by whomever."""
        topic = self.vhost.topics.log.topics.get(name)
        if topic is not None and self._watched.get(name) is not topic:
            self._watched[name] = topic
            topic.when_appended(lambda: self.polls.try_topic(name))
        return topic

    def get_topic(self, name: str) -> LogTopic:
        topic = self.find_topic(name)
        if topic is None:
            raise NoSuchTopic(f"no topic '{name}'; create it, or let the broker create topics")
        return topic

    def make_topic(self, name: str, queues: int) -> LogTopic:
        """The topic, made when it is not there. Its name was checked."""
        found = self.find_topic(name)
        if found is not None:
            return found
        topics = self.vhost.topics
        if any(engine.knows(name) for engine in topics.engines.values()):
            raise EngineUnavailable(
                f"topic '{name}' is in an engine that RocketMQ clients cannot use"
            )
        topics.log.make(TopicSpec(name, min(max(queues, 1), MAX_QUEUES)))
        made = self.get_topic(name)
        self.polls.try_topic(name)
        return made

    def topic_for_send(self, session: Session, name: str, queues: int) -> LogTopic:
        """The topic to append to; a new one when the settings and the user's rights allow it."""
        names.check_topic(name)
        if name in names.CLOSED_TOPICS:
            raise AccessRefused(f"topic '{name}' belongs to the broker; nobody else may send to it")
        session.check_topic_right("write", name)
        found = self.find_topic(name)
        if found is not None:
            return found
        if names.is_retry_topic(name) or names.is_dead_letter_topic(name):
            return self.make_topic(name, 1)
        if not self.settings.auto_create:
            raise NoSuchTopic(f"no topic '{name}', and topics are not created by sending to them")
        session.check_topic_right("configure", name)
        return self.make_topic(name, min(queues, TEMPLATE_QUEUES))

    def store_host(self, session: Session) -> HostAddress:
        """This broker as messages name it; some clients can only read IPv4 there."""
        return as_v4(HostAddress(self.settings.advertise_host or session.transport.host, self.port))

    def real_place(self, record: TopicRecord) -> tuple[LogTopic, Track]:
        """Where a message belongs that waits in a hidden topic. The topic may have been deleted
        and made again meanwhile: the message is not lost for that."""
        given = record.properties
        topic = self.make_topic(given.get(properties.REAL_TOPIC, ""), 1)
        text = given.get(properties.REAL_QUEUE_ID, "")
        queue_id = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
        lane = Priority.__members__.get(given.get(REAL_LANE, ""), Priority.MIDDLE)
        return topic, (lane, queue_id % topic.queues)

    def topic_of_number(self, number: int) -> tuple[LogTopic, Track] | None:
        """Whose number in the journal is it?"""
        topic = self._numbers.get(number)
        if topic is None or topic.deleted:
            for topic in self.vhost.topics.log.topics.values():
                self._numbers.update(dict.fromkeys(topic.numbers(), topic))
            topic = self._numbers.get(number)
        if topic is None or topic.deleted:
            return None
        return topic, topic.numbers()[number]

    # -- groups ---------------------------------------------------------------------------------

    def notify(self, group: str) -> None:
        """Tell the members that others came or went."""
        found = self.members.groups.get(group)
        if found is None or not found.is_clustering or not self.groups.get(group).notify_enable:
            return
        ext = NotifyConsumerIdsChanged(group).ext()
        for session in list(found.members):
            request = Command(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                ext,
                opaque=session.next_opaque(),
                flag=ONEWAY,
            )
            session.send_command(request)

    def lose(self, session: Session) -> None:
        """A connection is gone."""
        self.polls.drop(session)
        self.relays.drop(session)
        for name, group in list(self.members.groups.items()):
            member = group.members.get(session)
            if member is not None:
                self._release_locks(name, member.client_id, session)
        for name in self.members.lose(session):
            self.notify(name)

    def _release_locks(self, group: str, client_id: str, session: Session) -> None:
        """Unless the client has another connection already."""
        members = self.members.groups[group].members
        others = [one for one in members.values() if one.connection is not session]
        if all(one.client_id != client_id for one in others):
            self.locks.release(group, client_id)

    def watch_members(self) -> None:
        """Look for silent members from now on, as long as there are any."""
        if not self._scanning:
            self._scanning = True
            self.broker.timers.after(EXPIRY_SCAN_MS, self._scan)

    def _scan(self) -> None:
        self._scanning = False
        for name in self.members.expire(self.now_ms()):
            self.notify(name)
        if self.members.groups or self.members.producers:
            self.watch_members()
