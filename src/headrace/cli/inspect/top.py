"""`headrace top`: a live table of queues and groups in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.support.http_api import ManagementClient, http_options
from headrace.cli.support.options import flag, number_option
from headrace.cli.support.output import DONE, Column, show, table, wants_json

if TYPE_CHECKING:
    from rich.console import RenderableType

QUEUES = (
    Column("name", "queue"),
    Column("ready", "ready", is_number=True),
    Column("unacked", "unacked", is_number=True),
    Column("consumers", "consumers", is_number=True),
    Column("in", "in/s", is_number=True),
    Column("out", "out/s", is_number=True),
    Column("ack", "ack/s", is_number=True),
)
GROUPS = (
    Column("name", "group"),
    Column("topic", "topic"),
    Column("members", "members", is_number=True),
    Column("lag", "lag", is_number=True),
    Column("seconds", "behind (s)", is_number=True),
)
_SORTS = ("ready", "unacked", "in", "out", "ack", "name")


@click.command()
@click.option(
    "--sort", type=click.Choice(_SORTS), default="ready", show_default=True, help="Order of queues."
)
@number_option("--interval", 2.0, 0.5, "Seconds between updates.")
@flag("--once", "Print one table and exit.")
@http_options
def top(client: ManagementClient, sort: str, interval: float, once: bool) -> int:
    """Show queues with rates and groups with lag, until Ctrl-C.

    When the output is not a terminal, the queues are printed once.
    """
    if once or wants_json() or not sys.stdout.isatty():
        return show(QUEUES, queue_rows(client, sort), nothing="no queues")
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(_screen(client, sort, live.console.size.height), refresh=True)
                time.sleep(interval)
        except KeyboardInterrupt:
            return DONE


def queue_rows(client: ManagementClient, sort: str) -> list[dict[str, object]]:
    """All queues, the largest value first; names in their order."""
    rows = [_queue_row(queue) for queue in client.get("queues")]
    if sort == "name":
        return sorted(rows, key=lambda row: row["name"])
    return sorted(rows, key=lambda row: (-row[sort], row["name"]))


def _queue_row(queue: Mapping[str, Any]) -> dict[str, Any]:
    stats = queue.get("message_stats", {})
    vhost, name = queue["vhost"], queue["name"]
    return {
        "name": name if vhost == "/" else f"{vhost}/{name}",
        "ready": queue["messages_ready"],
        "unacked": queue["messages_unacknowledged"],
        "consumers": queue["consumers"],
        "in": _rate(stats, "publish"),
        "out": _rate(stats, "deliver_get"),
        "ack": _rate(stats, "ack"),
    }


def group_rows(client: ManagementClient) -> list[dict[str, object]]:
    return [
        {
            "name": group["name"],
            "topic": group["topic"] or group["queue"],
            "members": len(group["members"]),
            "lag": group["messages"],
            "seconds": round(group["seconds"] or 0, 1),
        }
        for group in sorted(client.get("groups"), key=lambda group: -group["messages"])
    ]


def _rate(stats: Mapping[str, Any], name: str) -> float:
    return round(float(stats.get(f"{name}_details", {}).get("rate", 0.0)), 1)


def _screen(client: ManagementClient, sort: str, height: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    node = client.get("nodes")[0]
    overview = client.get("overview")
    stats, totals = overview.get("message_stats", {}), overview["object_totals"]
    head = (
        f"{client.where}  up {node['uptime'] // 1000:,} s  "
        f"in {_rate(stats, 'publish'):,}/s  out {_rate(stats, 'deliver_get'):,}/s  "
        f"{totals['connections']} connections  memory {node['mem_used'] >> 20:,} MiB  "
        f"disk free {node['disk_free'] >> 30:,} GiB"
    )
    alarms = " and ".join(
        kind for kind in ("mem", "disk_free") if node.get(f"{kind}_alarm")
    ).replace("mem", "memory")
    queues, groups = queue_rows(client, sort), group_rows(client)
    room = max(3, height - 10 - min(len(groups), 8))
    parts: list[RenderableType] = [Text(head, style="bold")]
    if alarms:
        parts.append(Text(f"ALARM: {alarms}: publishers are blocked", style="bold red"))
    parts.append(table(QUEUES, queues[:room]))
    if len(queues) > room:
        parts.append(Text(f"... and {len(queues) - room} more queues", style="dim"))
    if groups:
        parts.append(table(GROUPS, groups[:8]))
    return Group(*parts, Text("Ctrl-C ends", style="dim"))
