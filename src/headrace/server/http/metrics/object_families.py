"""Metric families of single queues, connections and channels, for /metrics/per-object.

There may be 10,000 queues with 20 numbers each. The text is therefore made here, line by line and
in a thread, and not by the library, which would take ten times as long for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.core.queues.queue import Queue
from headrace.server.base_session import BaseSession
from headrace.server.http import stats
from headrace.server.http.api.consumers import channel_name
from headrace.server.http.api.queues import lengths, sizes
from headrace.server.http.metrics.broker_families import QUEUE_GAUGES

SLICE = 500
_COUNTED = {
    "publish": ("rabbitmq_queue_messages_published_total", "Messages put into the queue"),
    "deliver_get": ("headrace_queue_messages_delivered_total", "Messages delivered or got"),
    "ack": ("headrace_queue_messages_acked_total", "Messages acknowledged"),
    "redeliver": ("headrace_queue_messages_redelivered_total", "Messages delivered again"),
}
_CONSUMERS = ("rabbitmq_queue_consumers", "Consumers")
_HEADS = [
    *((*names, "gauge") for names in QUEUE_GAUGES.values()),
    (*_CONSUMERS, "gauge"),
    *((*names, "counter") for names in _COUNTED.values()),
]
_INDEX = [stats.QUEUE.index(name) for name in _COUNTED]

Line = tuple[str, tuple[object, ...]]  # labels, and a value per entry of _HEADS


async def queue_lines(queues: Sequence[Queue]) -> list[Line]:
    """The numbers of every queue, read on the loop a slice at a time."""
    lines: list[Line] = []
    for number, queue in enumerate(queues):
        if number and number % SLICE == 0:
            await asyncio.sleep(0)
        shown = lengths(queue) | sizes(queue)
        values = stats.queue_values(queue)
        labels = f'{{vhost="{_escaped(queue.services.name)}",queue="{_escaped(queue.name)}"}} '
        numbers = (
            *(shown[name] for name in QUEUE_GAUGES),
            len(queue.consumers),
            *(values[index] for index in _INDEX),
        )
        lines.append((labels, numbers))
    return lines


def queue_text(lines: Sequence[Line]) -> bytes:
    """The same as text; may run in a thread."""
    parts: list[str] = []
    for at, (name, text, kind) in enumerate(_HEADS):
        parts.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
        parts += [f"{name}{labels}{numbers[at]}\n" for labels, numbers in lines]
    return "".join(parts).encode("utf-8", "replace")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _utf8(name: str) -> str:
    """A name of which the bytes may be anything, as text that can be written."""
    return name.encode("utf-8", "backslashreplace").decode()


def connection_families(sessions: Iterable[BaseSession]) -> list[Metric]:
    by_connection, by_channel = ("connection", "vhost", "user"), ("channel",)
    received = CounterMetricFamily(
        "rabbitmq_connection_incoming_bytes", "Bytes received", labels=by_connection
    )
    sent = CounterMetricFamily(
        "rabbitmq_connection_outgoing_bytes", "Bytes sent", labels=by_connection
    )
    published = CounterMetricFamily(
        "rabbitmq_channel_messages_published", "Messages published", labels=by_channel
    )
    delivered = CounterMetricFamily(
        "rabbitmq_channel_messages_delivered", "Messages delivered or got", labels=by_channel
    )
    unacked = GaugeMetricFamily(
        "rabbitmq_channel_messages_unacked", "Messages not acked yet", labels=by_channel
    )
    for session in sessions:
        vhost = session.vhost.name if session.vhost else ""
        labels = (session.transport.name, vhost, _utf8(session.user.name))
        received.add_metric(labels, session.received)
        sent.add_metric(labels, session.sent)
        for channel in stats.channels_of(session):
            label = (channel_name(session, channel),)
            published.add_metric(label, channel.published)
            delivered.add_metric(label, channel.delivery_tag)
            unacked.add_metric(label, channel.unacked.count)
    return [received, sent, published, delivered, unacked]
