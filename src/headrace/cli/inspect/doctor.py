"""`headrace doctor`: look for common problems of a running broker and say what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from headrace.cli.support.http_api import ManagementClient, http_options
from headrace.cli.support.options import number_option
from headrace.cli.support.output import (
    DONE,
    FAILED,
    counted,
    escaped,
    print_json,
    progress_bar,
    wants_json,
)


@click.command()
@number_option("--seconds", 5.0, 0, "Seconds between two measurements, to detect growth.")
@http_options
def doctor(client: ManagementClient, seconds: float) -> int:
    """Look for common problems and print what to do.

    For example no consumers, growing backlogs, alarms, stalled groups.

    Exit code 1 when a severe problem was found.
    """
    before = snapshot(client)
    with progress_bar("measuring"):
        time.sleep(seconds)
    problems = list(find(before, snapshot(client)))
    if wants_json():
        print_json(
            [
                {"name": p.name, "severe": p.is_severe, "text": p.text, "advice": p.advice}
                for p in problems
            ]
        )
    else:
        for one in problems:
            mark = click.style("problem", fg="red") if one.is_severe else "warning"
            click.echo(f"{mark}  {one.name}: {escaped(one.text)}\n         {escaped(one.advice)}")
        click.echo(f"{counted(len(CHECKS), 'check')}, {counted(len(problems), 'finding')}")
    return FAILED if any(one.is_severe for one in problems) else DONE


def snapshot(client: ManagementClient) -> Snapshot:
    kinds = ("queues", "consumers", "connections", "exchanges", "bindings", "groups", "pipelines")
    return Snapshot(
        node=client.get("nodes")[0],
        overview=client.get("overview"),
        **{kind: client.get(kind) for kind in kinds},
        clock_skew=client.clock_skew or 0.0,
        is_default_login=client.uses_default_login,
    )


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Replies of the API at one moment."""

    node: Json
    overview: Json
    queues: list[Json]
    consumers: list[Json]
    connections: list[Json]
    exchanges: list[Json]
    bindings: list[Json]
    groups: list[Json]
    pipelines: list[Json]
    clock_skew: float
    is_default_login: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and what to do."""

    name: str
    text: str
    advice: str
    is_severe: bool = False


Found = Iterator[tuple[str, str]]
"""What was seen, and what to do."""


def alarm(before: Snapshot, now: Snapshot) -> Found:
    if now.node["mem_alarm"]:
        yield "memory alarm: publishers are blocked", "consume or purge; raise the memory watermark"
    if now.node["disk_free_alarm"]:
        yield "disk alarm: publishers are blocked", "free disk space or lower disk_free_limit"


def disk_nearly_full(before: Snapshot, now: Snapshot) -> Found:
    free, limit = now.node["disk_free"], now.node["disk_free_limit"]
    if not now.node["disk_free_alarm"] and free < max(4 * limit, 2 << 30):
        yield (
            f"{free >> 20:,} MiB free, publishers are blocked below {limit >> 20:,} MiB",
            "free disk space, shorten retention, or move the data directory",
        )


def memory_nearly_full(before: Snapshot, now: Snapshot) -> Found:
    used, limit = now.node["mem_used"], now.node["mem_limit"]
    if not now.node["mem_alarm"] and used > 0.8 * limit:
        yield (
            f"{used >> 20:,} of {limit >> 20:,} MiB used",
            "look for long queues of transient messages and for unacked messages",
        )


def files_nearly_used_up(before: Snapshot, now: Snapshot) -> Found:
    used, total = now.node["fd_used"], now.node["fd_total"]
    if used > 0.8 * total:
        yield f"{used:,} of {total:,} open files", "raise the limit (ulimit -n, LimitNOFILE)"


def clock_skew(before: Snapshot, now: Snapshot) -> Found:
    if abs(now.clock_skew) > 5:
        yield (
            f"the broker's clock differs by {now.clock_skew:+.0f} s from this machine's",
            "run NTP on both: expiry, retention and delays depend on the clock",
        )


def default_password(before: Snapshot, now: Snapshot) -> Found:
    outside = [
        one
        for one in now.overview.get("listeners", ())
        if one.get("ip_address") not in ("127.0.0.1", "::1")
    ]
    if now.is_default_login and outside:
        yield (
            "guest has its default password and the broker listens on other addresses",
            "headrace user set-password guest, and create a user for each program",
        )


def no_consumers(before: Snapshot, now: Snapshot) -> Found:
    for queue in now.queues:
        if queue["messages_ready"] > 0 and queue["consumers"] == 0:
            yield (
                f"queue {_name(queue)}: {queue['messages_ready']:,} ready messages, no consumers",
                "start a consumer, or set a length limit or TTL by a policy",
            )


def backlog_growing(before: Snapshot, now: Snapshot) -> Found:
    earlier = {_name(queue): queue["messages_ready"] for queue in before.queues}
    for queue in now.queues:
        grown = queue["messages_ready"] - earlier.get(_name(queue), queue["messages_ready"])
        if grown > 100 and queue["consumers"]:
            yield (
                f"queue {_name(queue)}: {grown:,} more ready messages than a moment ago",
                "consumers are slower than publishers: add consumers or raise the prefetch",
            )


def unacked_growing(before: Snapshot, now: Snapshot) -> Found:
    earlier = {_name(queue): queue for queue in before.queues}
    for queue in now.queues:
        old = earlier.get(_name(queue))
        unacked = queue["messages_unacknowledged"]
        if old is None or unacked == 0 or unacked < old["messages_unacknowledged"]:
            continue
        if _acked(queue) == _acked(old) and (queue["messages_ready"] or unacked > 1000):
            yield (
                f"queue {_name(queue)}: {unacked:,} unacked messages and none acknowledged",
                "check that consumers call basic_ack; `headrace connection list` shows them",
            )


def no_prefetch(before: Snapshot, now: Snapshot) -> Found:
    for one in now.consumers:
        is_limited = one["prefetch_count"] or one["channel_details"].get("global_prefetch_count")
        if one["ack_required"] and not is_limited:
            yield (
                f"consumer {one['consumer_tag']} of queue {_name(one['queue'])} has no prefetch "
                "limit",
                "call basic_qos(prefetch_count=...): otherwise one consumer takes the whole queue",
            )


def transient_messages(before: Snapshot, now: Snapshot) -> Found:
    for queue in now.queues:
        lost = queue["messages"] - queue["messages_persistent"]
        if queue["durable"] and lost > 0:
            yield (
                f"durable queue {_name(queue)}: {lost:,} messages are not persistent",
                "publish with delivery_mode=2: they are lost when the broker restarts",
            )


def unbound_exchange(before: Snapshot, now: Snapshot) -> Found:
    used = {(one["vhost"], one["source"]) for one in now.bindings}
    for one in now.exchanges:
        name, arguments = one["name"], one.get("arguments", {})
        if (one["vhost"], name) in used or "alternate-exchange" in arguments:
            continue
        if name and not name.startswith(("amq.", "topic.")):
            yield (
                f"exchange {_name(one)} has no bindings: its messages are dropped",
                "bind a queue, or publish with mandatory=True to notice",
            )


def blocked_connection(before: Snapshot, now: Snapshot) -> Found:
    for one in now.connections:
        if one["state"] in ("blocked", "blocking"):
            yield f"connection {one['name']} is {one['state']}", "an alarm stops publishers"


def channel_leak(before: Snapshot, now: Snapshot) -> Found:
    for one in now.connections:
        if one["channels"] > 100:
            yield (
                f"connection {one['name']} has {one['channels']} channels",
                "close channels after use, or keep one per thread",
            )


def group_stalled(before: Snapshot, now: Snapshot) -> Found:
    earlier = {_group(one): one for one in before.groups}
    for one in now.groups:
        old = earlier.get(_group(one))
        if one["messages"] and old and _positions(one) == _positions(old):
            who = "no member is connected" if not one["members"] else "its members do not commit"
            yield (
                f"group {one['name']} of {one['topic'] or one['queue']}: lag {one['messages']:,}, "
                f"{who}",
                "start a member, or check that members commit",
            )


def dead_messages(before: Snapshot, now: Snapshot) -> Found:
    for one in now.groups:
        if one["dead"]:
            yield (
                f"group {one['name']} of {one['topic']}: {one['dead']:,} dead messages",
                "list them with dead() of a consumer of the group, then append them again",
            )


def pipeline_failed(before: Snapshot, now: Snapshot) -> Found:
    for one in now.pipelines:
        if one.get("state") == "failed":
            yield f"pipeline {one['name']} failed: {one.get('error', '')}", "read its log, run it"


CHECKS: Final[Mapping[str, tuple[Callable[[Snapshot, Snapshot], Found], bool]]] = {
    check.__name__.replace("_", "-"): (check, is_severe)
    for check, is_severe in (
        (alarm, True),
        (disk_nearly_full, True),
        (memory_nearly_full, True),
        (files_nearly_used_up, True),
        (clock_skew, True),
        (default_password, True),
        (unacked_growing, True),
        (group_stalled, True),
        (pipeline_failed, True),
        (no_consumers, False),
        (backlog_growing, False),
        (no_prefetch, False),
        (transient_messages, False),
        (unbound_exchange, False),
        (blocked_connection, False),
        (channel_leak, False),
        (dead_messages, False),
    )
}
"""By name: the check, and whether its problems are severe."""


def find(before: Snapshot, now: Snapshot) -> Iterable[Problem]:
    """All problems, severe ones first."""
    for name, (check, is_severe) in CHECKS.items():
        for text, advice in check(before, now):
            yield Problem(name, text, advice, is_severe)


def _name(one: Json) -> str:
    return one["name"] if one["vhost"] == "/" else f"{one['vhost']}/{one['name']}"


def _group(one: Json) -> tuple[str, ...]:
    return (one["vhost"], one["topic"], one["queue"], one["name"])


def _positions(one: Json) -> list[object]:
    return [part.get("position") for part in one.get("lanes", ())]


def _acked(queue: Json) -> object:
    return queue.get("message_stats", {}).get("ack", 0)
