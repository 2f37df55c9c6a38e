"""/metrics for Prometheus: sums by default, single queues and connections on request.

Numbers are read per request and turned into text in a thread, so that a broker with many
queues continues while they are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client.exposition import CONTENT_TYPE_LATEST, choose_encoder, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core.queues.queue import Queue
from headrace.server.base_session import BaseSession
from headrace.server.http import replies, stats
from headrace.server.http.api.consumers import channel_name
from headrace.server.http.api.queues import lengths, sizes
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.metrics.broker_families import QUEUE_GAUGES, broker_families, own_families
from headrace.server.http.router import ANYBODY, MONITORING, ApiRoutes

ROUTES = ApiRoutes()

SLICE = 500


class _MadeFamilies(Collector):
    """Families that are made already."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def _queue_sums(call: ApiRequest) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(QUEUE_GAUGES, 0)
    queues = [one for vhost in call.broker.vhosts.values() for one in vhost.queues.values()]
    for start in range(0, len(queues), SLICE):
        if start:
            await asyncio.sleep(0)
        for queue in queues[start : start + SLICE]:
            for name, value in (lengths(queue) | sizes(queue)).items():
                if isinstance(value, int):
                    sums[name] += value
    return sums


@ROUTES.get("/metrics", ANYBODY, "Aggregated metrics for Prometheus")
@ROUTES.get("/api/metrics", ANYBODY, "Aggregated metrics, at RabbitMQ 4's path")
async def _sums(call: ApiRequest) -> replies.Reply:
    sums = await _queue_sums(call)
    encode, content_type = choose_encoder(call.headers.get("accept", ""))
    families = _MadeFamilies(
        *broker_families(call.management, sums), *own_families(call.management)
    )
    body = await asyncio.to_thread(encode, families)
    return replies.Reply(200, body, content_type)


@ROUTES.get(
    "/metrics/per-object", MONITORING, "Metrics per queue, connection and channel for Prometheus"
)
async def _per_object(call: ApiRequest) -> replies.Reply:
    queues = [one for vhost in call.broker.vhosts.values() for one in vhost.queues.values()]
    lines = await queue_lines(queues)
    sessions = stats.sessions_of(call.broker)
    families = _MadeFamilies(*own_families(call.management), *connection_families(sessions))
    body = await asyncio.to_thread(lambda: generate_latest(families) + queue_text(lines))
    return replies.Reply(200, body, CONTENT_TYPE_LATEST)


@ROUTES.get("/metrics/detailed", MONITORING, "Not supported; use /metrics/per-object")
async def _detailed(call: ApiRequest) -> replies.Reply:
    raise replies.bad_request("ask for /metrics or /metrics/per-object")


# -- single objects ------------------------------------------------------------------------------
#
# There may be 10,000 queues with 20 numbers each. Their text is therefore made here, line by line
# and in a thread, and not by the library, which would take ten times as long for it.

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
    def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"rabbitmq_{name}", text, labels=labels)

    of_connection = ("connection", "vhost", "user")
    received = counter("connection_incoming_bytes", "Bytes received", *of_connection)
    sent = counter("connection_outgoing_bytes", "Bytes sent", *of_connection)
    published = counter("channel_messages_published", "Messages published", "channel")
    delivered = counter("channel_messages_delivered", "Messages delivered or got", "channel")
    unacked = GaugeMetricFamily(
        "rabbitmq_channel_messages_unacked", "Messages not acked yet", labels=("channel",)
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
