"""/metrics for Prometheus: sums by default, single queues and connections on request.

Numbers are read per request and turned into text in a thread, so that a broker with many
queues continues while they are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client.exposition import CONTENT_TYPE_LATEST, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from headrace.server.http import replies, stats
from headrace.server.http.api.queues import lengths, sizes
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.metrics.broker_families import broker_families, own_families
from headrace.server.http.metrics.object_families import (
    connection_families,
    queue_lines,
    queue_text,
)
from headrace.server.http.replies import Reply
from headrace.server.http.router import ANYBODY, MONITORING, ApiRoute

SLICE = 500


class _CachedFamilies(Collector):
    """Families that are made already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _registry(families: Iterable[Metric]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_CachedFamilies(families))
    return registry


async def _queue_sums(call: ApiRequest) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(_SUMMED, 0)
    queues = [one for vhost in call.broker.vhosts.values() for one in vhost.queues.values()]
    for start in range(0, len(queues), SLICE):
        if start:
            await asyncio.sleep(0)
        for queue in queues[start : start + SLICE]:
            for name, value in (lengths(queue) | sizes(queue)).items():
                if isinstance(value, int):
                    sums[name] += value
    return sums


_SUMMED = ("messages", "messages_ready", "messages_unacknowledged", "messages_ram",
           "messages_ready_ram", "messages_unacknowledged_ram", "messages_persistent",
           "messages_paged_out", "message_bytes", "message_bytes_ready",
           "message_bytes_unacknowledged", "message_bytes_ram", "message_bytes_persistent",
           "message_bytes_paged_out", "memory")  # fmt: skip


async def _sums(call: ApiRequest) -> Reply:
    sums = await _queue_sums(call)
    encode, content_type = choose_encoder(call.headers.get("accept", ""))
    families = [*broker_families(call.management, sums), *own_families(call.management)]
    body = await asyncio.get_running_loop().run_in_executor(None, encode, _registry(families))
    return Reply(200, body, content_type)


async def _per_object(call: ApiRequest) -> Reply:
    queues = [
        queue for vhost in call.broker.vhosts.values() for queue in tuple(vhost.queues.values())
    ]
    lines = await queue_lines(queues)
    sessions = stats.sessions_of(call.broker)
    registry = _registry([*own_families(call.management), *connection_families(sessions)])

    def write() -> bytes:
        return generate_latest(registry) + queue_text(lines)

    body = await asyncio.get_running_loop().run_in_executor(None, write)
    return Reply(200, body, CONTENT_TYPE_LATEST)


async def _detailed(call: ApiRequest) -> Reply:
    raise replies.bad_request("ask for /metrics or /metrics/per-object")


ROUTES = (
    ApiRoute("GET", "/metrics", _sums, ANYBODY, "Aggregated metrics for Prometheus"),
    ApiRoute("GET", "/api/metrics", _sums, ANYBODY, "Aggregated metrics, at RabbitMQ 4's path"),
    ApiRoute("GET", "/metrics/per-object", _per_object, MONITORING,
          "Metrics per queue, connection and channel for Prometheus"),
    ApiRoute("GET", "/metrics/detailed", _detailed, MONITORING,
          "Not supported; use /metrics/per-object"),
)  # fmt: skip
