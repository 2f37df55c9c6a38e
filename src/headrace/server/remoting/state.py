"""What all RocketMQ connections share: topics, groups, waiting pulls, delayed and half messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.core.broker import DEFAULT_VHOST, Broker
from headrace.server.remoting.client_requests import RelayedRequests
from headrace.server.remoting.delayed_messages import DelayLevels, TimedMessages
from headrace.server.remoting.group_settings import GroupSettings
from headrace.server.remoting.half_messages import HalfMessages
from headrace.server.remoting.long_polls import LongPolls
from headrace.server.remoting.membership import GroupMembership, PullOffsets, QueueLocks
from headrace.server.remoting.send_batcher import TurnAppends
from headrace.server.remoting.session import RemotingSettings, Session
from headrace.server.remoting.statistics import RateCounters
from headrace.server.remoting.topics import RemotingTopics
from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.command import Command
from headrace.wire.remoting.headers.groups import NotifyConsumerIdsChanged

EXPIRY_SCAN_MS = 10_000


class RemotingState:
    """One per server. RocketMQ clients see the vhost `/` and its log topics."""

    def __init__(self, broker: Broker, settings: RemotingSettings) -> None:
        self.broker = broker
        self.settings = settings
        self.long_polls = LongPolls(broker.timers)
        self.topics = RemotingTopics(broker, self.long_polls.try_topic)
        self.members: GroupMembership[Session] = GroupMembership()
        self.queue_locks = QueueLocks()
        self.group_settings = GroupSettings(broker)
        self.pull_offsets = PullOffsets()
        self.rates = RateCounters()
        self.started_ms = self.wall_ms()
        self.delivered_total = 0  # messages that consumers have pulled
        self.skipped_total = 0  # that were too large for them
        self.relayed_requests = RelayedRequests(broker.timers)
        self.appends = TurnAppends(broker.turn)
        self.delay_levels = DelayLevels(self.topics, broker.timers)
        self.timed_messages = TimedMessages(self.topics, broker.timers)
        self.half_messages = HalfMessages(self.topics, broker.timers, self.members.find_producer)
        self._scanning = False

    def start(self) -> None:
        self.broker.vhosts[DEFAULT_VHOST].topics.log.members_of = self.members.client_ids
        self.delay_levels.start()
        self.timed_messages.start()
        self.half_messages.start()

    def now_ms(self) -> int:
        """Monotonic time, for deadlines."""
        return self.broker.clock.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for what is stored and shown."""
        return int(self.broker.clock.wall_seconds() * 1000)

    def count(self, kind: str, key: str, amount: int) -> None:
        """For the rates of the last minute, hour and day."""
        self.rates.add(kind, key, amount, self.wall_ms() // 60_000)

    # -- members of groups ----------------------------------------------------------------------

    def notify_members(self, group: str) -> None:
        """Notify the members of a group that its membership has changed."""
        found = self.members.groups.get(group)
        if found is None or not found.is_clustering:
            return
        if self.group_settings.get(group).notify_enable:
            ext = NotifyConsumerIdsChanged(group).ext()
            for session in list(found.members):
                session.send_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext, oneway=True)

    def disconnected(self, session: Session) -> None:
        """Drop what a closed connection has waiting, its memberships and its locks."""
        self.long_polls.drop(session)
        self.relayed_requests.drop(session)
        for name, group in list(self.members.groups.items()):
            member = group.members.get(session)
            # The client may have another connection already: then it keeps its locks.
            if member is not None and not group.has_other(member):
                self.queue_locks.release(name, member.client_id)
        for name in self.members.remove(session):
            self.notify_members(name)

    def expire_members(self) -> None:
        """Expire silent members from now on, as long as there are any."""
        if not self._scanning:
            self._scanning = True
            self.broker.timers.after(EXPIRY_SCAN_MS, self._scan)

    def _scan(self) -> None:
        self._scanning = False
        for name in self.members.expire(self.now_ms()):
            self.notify_members(name)
        if self.members.groups or self.members.producers:
            self.expire_members()


Handler: TypeAlias = Callable[[RemotingState, Session, Command], None]
