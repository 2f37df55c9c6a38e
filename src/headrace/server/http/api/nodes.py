"""/api/nodes: the one node there is, with its limits and what is used of them."""

from __future__ import annotations

import os
import resource
import threading
import time

from headrace import __version__
from headrace.core.alarms import free_bytes, resident_bytes
from headrace.server.http import replies, stats
from headrace.server.http.api.overview import contexts, exchange_types
from headrace.server.http.api_request import ApiRequest
from headrace.server.http.context import ManagementContext
from headrace.server.http.listing import listed_rows, reduced
from headrace.server.http.router import MONITORING, ApiRoutes
from headrace.server.http.sampler import SampleWindow, window_of, with_details

ROUTES = ApiRoutes()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _identity(management: ManagementContext) -> dict[str, object]:
    return {
        "name": management.node,
        "type": "disc",
        "running": True,
        "uptime": int((time.time() - management.started) * 1000),
        "os_pid": str(os.getpid()),
        "processors": os.cpu_count() or 1,
        "rates_mode": "basic",
        "partitions": [],
        "cluster_links": [],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN", "enabled": True},
            {"name": "AMQPLAIN", "description": "AMQPLAIN", "enabled": True},
        ],
        "applications": [
            {"name": "headrace", "description": "Headrace", "version": __version__},
        ],
        "contexts": contexts(management),
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "config_files": [],
        "log_files": [],
        "db_dir": str(management.config.data_dir),
        "mem_calculation_strategy": "rss",
        "net_ticktime": 60,
    }


def _resources(management: ManagementContext) -> dict[str, object]:
    broker = management.broker
    alarms = broker.alarms
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    threads = threading.active_count()
    return {
        "mem_used": resident_bytes(),
        "mem_limit": alarms.memory_limit,
        "mem_alarm": alarms.memory,
        "disk_free": free_bytes(management.config.data_dir),
        "disk_free_limit": alarms.disk_free_limit,
        "disk_free_alarm": alarms.disk,
        "fd_used": open_files(),
        "fd_total": files,
        "sockets_used": len(broker.connections),
        "sockets_total": files,
        "proc_used": threads,
        "proc_total": max(threads, resource.getrlimit(resource.RLIMIT_NPROC)[0]),
        "run_queue": 0,
    }


def node(management: ManagementContext, window: SampleWindow | None = None) -> dict[str, object]:
    """Its identity, resources and counters; the history of resources as far as the window goes."""
    sampler = management.sampler
    values = stats.broker_values(management.broker)
    churn = with_details(stats.BROKER, stats.CHURN, values, list(sampler.totals))
    last = sampler.node[-1][1] if sampler.node else (0,) * len(stats.NODE)
    resources = with_details(stats.NODE, stats.NODE, last, list(sampler.node), window)
    return {**_identity(management), **churn, **resources, **_resources(management)}


@ROUTES.get("/api/nodes", MONITORING, "All nodes; always one")
async def _nodes(call: ApiRequest) -> replies.Reply:
    row = node(call.management, window_of(call.query, "node_stats"))
    return await listed_rows(call, [row])


@ROUTES.get("/api/nodes/{name}", MONITORING, "One node")
async def _node(call: ApiRequest) -> object:
    replies.found(call.name == call.management.node)
    return reduced(call, node(call.management, window_of(call.query, "node_stats")))
