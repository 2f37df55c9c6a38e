"""The numbers of things, under RabbitMQ's names, as plain tuples that a sampler can keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.core.counters import QueueCounters
from headrace.core.exchange import Exchange
from headrace.core.queues.queue import Queue
from headrace.core.vhost import Vhost
from headrace.server.base_channel import BaseChannel
from headrace.server.base_session import BaseSession

if TYPE_CHECKING:
    from headrace.core.broker import Broker

Values = tuple[int, ...]

# Counters of messages per queue; vhosts and the broker have them too.
_FATE = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver",
         "deliver_get")  # fmt: skip
ENDS = ("expired", "dropped", "dead_lettered", "returned")  # of messages without an ack
QUEUE_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
QUEUE_MESSAGES = ("publish", *_FATE)
VHOST_MESSAGES = ("publish", "confirm", "return_unroutable", "drop_unroutable", *_FATE,
                  "disk_reads", "disk_writes")  # fmt: skip
VHOST_OCTETS = ("recv_oct", "send_oct")
EXCHANGE_MESSAGES = ("publish_in", "publish_out")
CHANNEL_MESSAGES = ("publish", "confirm", "return_unroutable", "drop_unroutable", *_FATE)
CHURN = ("connection_created", "connection_closed", "channel_created", "channel_closed",
         "queue_declared", "queue_created", "queue_deleted")  # fmt: skip

QUEUE = (*QUEUE_LENGTHS, *QUEUE_MESSAGES)
VHOST = (*QUEUE_LENGTHS, *VHOST_MESSAGES, *VHOST_OCTETS)
BROKER = (*VHOST, *CHURN)
NODE = ("mem_used", "disk_free", "confirm_p50_us", "confirm_p99_us")
CONNECTION = VHOST_OCTETS


def _fate(counters: QueueCounters) -> Values:
    got_with_ack = counters.got - counters.got_no_ack
    return (
        counters.delivered - counters.delivered_no_ack - got_with_ack,
        counters.delivered_no_ack - counters.got_no_ack,
        got_with_ack,
        counters.got_no_ack,
        counters.got_nothing,
        counters.acked - counters.delivered_no_ack,
        counters.redelivered,
        counters.delivered,
    )


def queue_values(queue: Queue) -> Values:
    ready, unacked = queue.backlog.count, queue.unacked
    return (ready + unacked, ready, unacked, queue.counters.published, *_fate(queue.counters))


def vhost_values(vhost: Vhost, sessions: Iterable[BaseSession]) -> Values:
    """The sums of a vhost; deleted queues and exchanges still count."""
    counters = vhost.counters
    total = QueueCounters()
    total.add(counters.gone)
    ready = unacked = 0
    for queue in vhost.queues.values():
        ready += queue.backlog.count
        unacked += queue.unacked
        total.add(queue.counters)
    published = counters.published + sum([one.published for one in vhost.exchanges.values()])
    received = sent = 0
    for session in sessions:
        if session.vhost is vhost:
            received += session.received
            sent += session.sent
    return (
        ready + unacked,
        ready,
        unacked,
        published,
        counters.confirmed,
        counters.returned,
        counters.dropped,
        *_fate(total),
        total.read_back,
        counters.stored,
        received,
        sent,
    )


def broker_values(broker: Broker, of_vhosts: Iterable[Values] | None = None) -> Values:
    """The sums of everything; who has just added up the vhosts need not do it again."""
    sessions = sessions_of(broker)
    vhosts = broker.vhosts.values()
    if of_vhosts is None:
        of_vhosts = [vhost_values(one, sessions) for one in vhosts]
    columns = zip(*of_vhosts, strict=True)
    sums = [sum(column) for column in columns] or [0 for _ in VHOST]
    churn = broker.churn
    queues = [one.counters for one in vhosts]
    return (
        *sums,
        churn.connections_opened,
        churn.connections_closed,
        churn.channels_opened,
        churn.channels_opened - sum([len(channels_of(session)) for session in sessions]),
        sum([one.queues_declared for one in queues]),
        sum([one.queues_created for one in queues]),
        sum([one.queues_deleted for one in queues]),
    )


def exchange_values(exchange: Exchange) -> Values:
    return (exchange.published, exchange.routed)


def connection_values(session: BaseSession) -> Values:
    return (session.received, session.sent)


def channel_values(channel: BaseChannel) -> Values:
    got = channel.delivery_tag - channel.delivered
    return (
        channel.published,
        channel.status().confirmed,
        channel.returned,
        channel.dropped,
        channel.delivered - channel.delivered_no_ack,
        channel.delivered_no_ack,
        got - channel.got_no_ack,
        channel.got_no_ack,
        channel.got_nothing,
        channel.acked,
        channel.redelivered,
        channel.delivery_tag,
    )


# -- what there is -------------------------------------------------------------------------------


def sessions_of(broker: Broker) -> list[BaseSession]:
    """The connections, oldest first."""
    sessions = [one for one in broker.connections if isinstance(one, BaseSession)]
    return sorted(sessions, key=lambda session: (session.connected_at, session.transport.name))


def channels_of(session: BaseSession) -> list[BaseChannel]:
    """The open channels of a connection."""
    return [one for one in session.open_channels() if not one.closing]
