"""Measures memory: a fresh broker, a known number of messages, and what its processes then hold."""

from __future__ import annotations

import time

from headrace.bench import processes
from headrace.bench.cases import Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.throughput import crew_of, laid_out
from headrace.bench.load.worker_group import SharedCounters, WorkerGroup
from headrace.bench.load_plan import LoadPlan
from headrace.bench.processes import Memory
from headrace.bench.target import Figure, MeasureError, Target

_LIMIT_SECONDS = 180
_SETTLE_SECONDS = 6.0


def measure_memory(target: Target, case: Case) -> Figure:
    """The value is anonymous memory in MB with the messages held; details have the growth."""
    _require_sight(target)
    before = settled(target)
    with laid_out(target, case) as (plan, link):
        board = SharedCounters(1, case.consumers)
        started = time.monotonic()
        with crew_of(target, plan, board) as crew:
            _fill(crew, case, board, plan, link)
            seconds = time.monotonic() - started
            after = settled(target)
            if not case.settles:  # else the broker would requeue a million when we disconnect
                plan.tear_down(link)
                plan.queues.clear()
                plan.exchange = ""
    details = {
        "before_mb": before.anonymous,
        "growth_mb": after.anonymous - before.anonymous,
        "rss_mb": after.resident,
        "rss_before_mb": before.resident,
        "fill_seconds": seconds,
    }
    return Figure(after.anonymous, details=details)


def measure_idle(target: Target, start_seconds: float) -> Figure:
    """A broker just started: the value is its anonymous memory in MB."""
    _require_sight(target)
    now = settled(target)
    details = {"rss_mb": now.resident, "start_seconds": start_seconds}
    return Figure(now.anonymous, details=details)


def _require_sight(target: Target) -> None:
    if not target.pids:
        raise MeasureError("the broker's processes cannot be seen from here")


def _fill(
    crew: WorkerGroup, case: Case, board: SharedCounters, plan: LoadPlan, link: AmqpConnection
) -> None:
    def done() -> bool:
        return (sum(board.received) if case.consumers else sum(board.sent)) >= case.limit

    crew.rest(_LIMIT_SECONDS, done)
    if not case.consumers:  # sent is not yet stored
        crew.rest(_LIMIT_SECONDS, lambda: link.count(plan.queues[0]) >= case.limit)
        count = link.count(plan.queues[0])
    else:
        count = sum(board.received)
    if count < case.limit:
        raise MeasureError(f"only {count:,} of {case.limit:,} messages in {_LIMIT_SECONDS} s")


def settled(target: Target) -> Memory:
    """Memory once two looks half a second apart differ by less than 1 %, or after a while."""
    end = time.monotonic() + _SETTLE_SECONDS
    last = processes.memory(target.pids)
    while time.monotonic() < end:
        time.sleep(0.5)
        now = processes.memory(target.pids)
        if abs(now.anonymous - last.anonymous) < max(0.5, last.anonymous * 0.01):
            return now
        last = now
    return last
