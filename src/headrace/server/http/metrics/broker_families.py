"""Metric families of the whole broker, for /metrics: under RabbitMQ's names where it has one."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from headrace import __version__
from headrace.core.alarms import free_bytes, resident_bytes
from headrace.model.histogram import Histogram
from headrace.server.http import stats
from headrace.server.http.context import RABBITMQ_VERSION, ManagementContext
from headrace.server.http.sampler import rate

gauge, counter = GaugeMetricFamily, CounterMetricFamily


def histogram(name: str, text: str, kept: Histogram) -> Metric:
    buckets = [("+Inf" if bound == float("inf") else repr(bound), float(count))
               for bound, count in kept.cumulative()]  # fmt: skip
    return HistogramMetricFamily(name, text, buckets, kept.total)


# Names of the counters of stats.BROKER as RabbitMQ's exporter has them: for the channels that are
# open now, and since the start. Here both are the latter: sums that never fall.
_CHANNEL = {
    "publish": ("messages_published", "Messages published"),
    "confirm": ("messages_confirmed", "Messages confirmed to publishers"),
    "return_unroutable": ("messages_unroutable_returned", "Unroutable messages returned"),
    "drop_unroutable": ("messages_unroutable_dropped", "Unroutable messages dropped"),
    "deliver": ("messages_delivered_ack", "Messages delivered that need an ack"),
    "deliver_no_ack": ("messages_delivered", "Messages delivered that need no ack"),
    "get": ("get_ack", "Messages got that need an ack"),
    "get_no_ack": ("get", "Messages got that need no ack"),
    "get_empty": ("get_empty", "Gets that found nothing"),
    "ack": ("messages_acked", "Messages acknowledged"),
    "redeliver": ("messages_redelivered", "Messages delivered again"),
}
_GLOBAL = {
    "publish": ("received", "Messages received from publishers"),
    "confirm": ("confirmed", "Messages confirmed to publishers"),
    "return_unroutable": ("unroutable_returned", "Unroutable messages returned"),
    "drop_unroutable": ("unroutable_dropped", "Unroutable messages dropped"),
    "deliver": ("delivered_consume_manual_ack", "Delivered to consumers that acknowledge"),
    "deliver_no_ack": ("delivered_consume_auto_ack", "Delivered to consumers that do not"),
    "get": ("delivered_get_manual_ack", "Got, to be acknowledged"),
    "get_no_ack": ("delivered_get_auto_ack", "Got without acknowledgement"),
    "get_empty": ("get_empty", "Gets that found nothing"),
    "ack": ("acknowledged", "Messages acknowledged by consumers"),
    "redeliver": ("redelivered", "Messages delivered again"),
    "deliver_get": ("delivered", "Messages delivered to consumers, or got"),
}
QUEUE_GAUGES = {
    "messages": ("rabbitmq_queue_messages", "Ready and unacknowledged messages"),
    "messages_ready": ("rabbitmq_queue_messages_ready", "Messages ready for consumers"),
    "messages_unacknowledged": ("rabbitmq_queue_messages_unacked", "Messages not acked yet"),
    "messages_ram": ("rabbitmq_queue_messages_ram", "Messages in memory"),
    "messages_ready_ram": ("rabbitmq_queue_messages_ready_ram", "Ready messages in memory"),
    "messages_unacknowledged_ram": (
        "rabbitmq_queue_messages_unacked_ram", "Unacknowledged messages in memory"),
    "messages_persistent": ("rabbitmq_queue_messages_persistent", "Stored messages"),
    "messages_paged_out": ("rabbitmq_queue_messages_paged_out", "Messages only on disk"),
    "message_bytes": ("rabbitmq_queue_messages_bytes", "Size of all messages"),
    "message_bytes_ready": ("rabbitmq_queue_messages_ready_bytes", "Size of ready messages"),
    "message_bytes_unacknowledged": (
        "rabbitmq_queue_messages_unacked_bytes", "Size of unacknowledged messages"),
    "message_bytes_ram": ("rabbitmq_queue_messages_ram_bytes", "Size of messages in memory"),
    "message_bytes_persistent": (
        "rabbitmq_queue_messages_persistent_bytes", "Size of stored messages"),
    "message_bytes_paged_out": (
        "rabbitmq_queue_messages_paged_out_bytes", "Size of messages only on disk"),
    "memory": ("rabbitmq_queue_process_memory_bytes", "Memory taken by messages of queues"),
}  # fmt: skip


def broker_families(management: ManagementContext, queues: Mapping[str, int]) -> Iterator[Metric]:
    """Everything with a name of RabbitMQ's; ``queues`` are the sums over all queues."""
    values = dict(zip(stats.BROKER, stats.broker_values(management.broker), strict=True))
    yield from _identity(management)
    yield from _process(management)
    yield from _objects(management, values)
    for name, (metric, text) in QUEUE_GAUGES.items():
        yield gauge(metric, text, queues[name])
    for name, (metric, text) in _CHANNEL.items():
        yield counter(f"rabbitmq_channel_{metric}", text, values[name])
    for name, (metric, text) in _GLOBAL.items():
        yield counter(f"rabbitmq_global_messages_{metric}", text, values[name])
    yield from _traffic(management, values)
    yield from _share(management)
    yield from _disk(management, values)


def _identity(management: ManagementContext) -> Iterator[Metric]:
    labels = ("rabbitmq_version", "product_name", "product_version", "python_version")
    build = GaugeMetricFamily("rabbitmq_build_info", "Versions", labels=labels)
    build.add_metric((RABBITMQ_VERSION, "Headrace", __version__, platform.python_version()), 1)
    yield build
    identity = GaugeMetricFamily(
        "rabbitmq_identity_info", "Node and cluster", labels=("rabbitmq_node", "rabbitmq_cluster")
    )
    identity.add_metric((management.node, management.cluster_name), 1)
    yield identity


def _process(management: ManagementContext) -> Iterator[Metric]:
    broker = management.broker
    alarms = broker.alarms
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("rabbitmq_process_resident_memory_bytes", "Memory used", resident_bytes())
    yield gauge("rabbitmq_resident_memory_limit_bytes", "Memory alarm level", alarms.memory_limit)
    free = free_bytes(management.config.data_dir)
    yield gauge("rabbitmq_disk_space_available_bytes", "Disk space left", free)
    yield gauge("rabbitmq_disk_space_available_limit_bytes", "Disk alarm level",
                alarms.disk_free_limit)  # fmt: skip
    used = len(os.listdir("/proc/self/fd"))
    yield gauge("rabbitmq_process_open_fds", "Open files and sockets", used)
    yield gauge("rabbitmq_process_max_fds", "Limit of open files and sockets", files)
    yield gauge("rabbitmq_process_open_tcp_sockets", "Open sockets", len(broker.connections))
    yield gauge("rabbitmq_process_max_tcp_sockets", "Limit of open sockets", files)
    yield gauge("rabbitmq_alarms_memory_used_watermark", "1: memory alarm", alarms.memory)
    yield gauge("rabbitmq_alarms_free_disk_space_watermark", "1: disk alarm", alarms.disk)
    yield gauge("rabbitmq_alarms_file_descriptor_limit", "1: descriptor alarm", alarms.files)
    counts = broker.users.logins.counts
    yield counter("rabbitmq_auth_attempts", "Logins", counts.accepted + counts.refused)
    yield counter("rabbitmq_auth_attempts_succeeded", "Logins accepted", counts.accepted)
    yield counter("rabbitmq_auth_attempts_failed", "Logins refused", counts.refused)


def _objects(management: ManagementContext, values: Mapping[str, int]) -> Iterator[Metric]:
    broker = management.broker
    sessions = stats.sessions_of(broker)
    channels = [one for session in sessions for one in stats.channels_of(session)]
    queues = [one for vhost in broker.vhosts.values() for one in vhost.queues.values()]
    consumers = sum([len(queue.consumers) for queue in queues])
    yield gauge("rabbitmq_connections", "Connections open", len(sessions))
    yield gauge("rabbitmq_channels", "Channels open", len(channels))
    yield gauge("rabbitmq_queues", "Queues", len(queues))
    yield gauge("rabbitmq_consumers", "Consumers", consumers)
    yield gauge("rabbitmq_queue_consumers", "Consumers of queues", consumers)
    yield gauge("rabbitmq_channel_consumers", "Consumers of channels", consumers)
    yield gauge("rabbitmq_global_consumers", "Consumers", consumers)
    yield gauge("rabbitmq_global_publishers", "Channels that have published",
                sum([1 for one in channels if one.published]))  # fmt: skip
    yield gauge("rabbitmq_channel_messages_unacked", "Unacknowledged messages of channels",
                sum([one.unacked.count for one in channels]))  # fmt: skip
    yield gauge("rabbitmq_channel_prefetch", "Limit of unacked messages, of all channels",
                sum([one.default_prefetch for one in channels]))  # fmt: skip
    for name, metric in (("connection_created", "connections_opened"),
                         ("connection_closed", "connections_closed"),
                         ("channel_created", "channels_opened"),
                         ("channel_closed", "channels_closed"),
                         ("queue_declared", "queues_declared"),
                         ("queue_created", "queues_created"),
                         ("queue_deleted", "queues_deleted")):  # fmt: skip
        yield counter(f"rabbitmq_{metric}", metric.replace("_", " ").capitalize(), values[name])


def _traffic(management: ManagementContext, values: Mapping[str, int]) -> Iterator[Metric]:
    broker = management.broker
    sessions = stats.sessions_of(broker)
    yield counter("rabbitmq_connection_incoming_bytes", "Bytes received", values["recv_oct"])
    yield counter("rabbitmq_connection_outgoing_bytes", "Bytes sent", values["send_oct"])
    yield counter("rabbitmq_connection_incoming_packets", "Reads from sockets",
                  sum([session.reads for session in sessions]))  # fmt: skip
    yield counter("rabbitmq_connection_outgoing_packets", "Writes to sockets",
                  sum([session.writes for session in sessions]))  # fmt: skip
    yield gauge("rabbitmq_connection_channels", "Channels of connections",
                sum([len(stats.channels_of(session)) for session in sessions]))  # fmt: skip
    routed = sum([one.routed for vhost in broker.vhosts.values()
                  for one in vhost.exchanges.values()])  # fmt: skip
    yield counter("rabbitmq_global_messages_routed", "Messages put into queues", routed)


def _share(management: ManagementContext) -> Iterator[Metric]:
    """Of a shared broker only."""
    if management.broker.shared_status is None:
        return
    status = management.broker.shared_status()
    standbys = [one for one in status["nodes"] if one["state"] == "standby"]
    behind = GaugeMetricFamily(
        "headrace_share_commits_behind", "Commits that a standby's copy lacks", labels=("node",)
    )
    for one in standbys:
        behind.add_metric((one["node"],), one["commits_behind"])
    yield behind
    yield gauge("headrace_share_epoch", "Takeovers of the shard", status["epoch"])
    yield gauge("headrace_share_commit", "Number of the last commit", status["commit"])
    yield gauge("headrace_share_seconds_since_commit", "Age of the last commit",
                status["seconds_since_commit"])  # fmt: skip
    yield gauge("headrace_share_lease", "1: a commit within the lease", status["has_lease"])
    yield gauge("headrace_share_standbys", "Nodes that stand by", len(standbys))
    alarm = GaugeMetricFamily("headrace_share_alarm", "1: there is an alarm", labels=("kind",))
    for kind in ("no_standby", "database_slow", "database_full"):
        alarm.add_metric((kind,), kind in status["alarms"])
    yield alarm


def _disk(management: ManagementContext, values: Mapping[str, int]) -> Iterator[Metric]:
    yield counter("rabbitmq_queue_disk_reads", "Messages read back", values["disk_reads"])
    yield counter("rabbitmq_queue_disk_writes", "Messages stored", values["disk_writes"])
    yield counter("rabbitmq_queue_messages_published", "Messages put into queues",
                  _published(management))  # fmt: skip
    log = management.broker.storage.log
    if log is not None:
        timings = log.timings
        yield counter("rabbitmq_io_write_bytes", "Bytes written", timings.bytes)
        yield counter("rabbitmq_io_write_ops", "Commits written", timings.commits)
        yield counter("rabbitmq_io_write_time_seconds", "Time writing", timings.write_seconds)
        yield counter("rabbitmq_io_sync_ops", "Syncs", timings.syncs)
        yield counter("rabbitmq_io_sync_time_seconds", "Time syncing", timings.sync.total)


def _published(management: ManagementContext) -> int:
    vhosts = management.broker.vhosts.values()
    there = sum([one.counters.published for vhost in vhosts for one in vhost.queues.values()])
    return there + sum([vhost.counters.gone.published for vhost in vhosts])


# -- our own -------------------------------------------------------------------------------------


def own_families(management: ManagementContext) -> Iterator[Metric]:
    """What RabbitMQ has no name for."""
    broker = management.broker
    log = broker.storage.log
    if log is not None:
        timings = log.timings
        yield histogram("headrace_confirm_latency_seconds",
                        "From the first message of a group commit until all of it is on disk",
                        timings.confirm)  # fmt: skip
        yield histogram("headrace_fsync_seconds", "One sync of the log", timings.sync)
        yield gauge("headrace_journal_unsynced_bytes", "Appended and not on disk yet",
                    max(0, log.end - log.durable))  # fmt: skip
    yield histogram("headrace_event_loop_lag_seconds", "How late a timer fires",
                    management.lag.lag)  # fmt: skip
    yield gauge("headrace_queue_wait_seconds",
                "About how long a message waits: ready messages by the rate of deliveries",
                _wait(management))  # fmt: skip
    total = _fates(management)
    for name in stats.ENDS:
        yield counter(f"headrace_messages_{name}", f"Messages {name.replace('_', '-')}",
                      total[name])  # fmt: skip
    yield counter("headrace_logins_locked", "Logins refused before the password was checked",
                  broker.users.logins.counts.locked)  # fmt: skip
    yield gauge("headrace_vhosts", "Vhosts", len(broker.vhosts))


def _wait(management: ManagementContext) -> float:
    history = management.sampler.totals
    if not history:
        return 0.0
    ready = history[-1][1][stats.BROKER.index("messages_ready")]
    per_second = rate(history, stats.BROKER.index("deliver_get"))
    return round(ready / per_second, 3) if per_second > 0 else 0.0


def _fates(management: ManagementContext) -> dict[str, int]:
    counters = [one.counters for vhost in management.broker.vhosts.values()
                for one in vhost.queues.values()]  # fmt: skip
    counters += [vhost.counters.gone for vhost in management.broker.vhosts.values()]
    return {name: sum([getattr(one, name) for one in counters]) for name in stats.ENDS}
