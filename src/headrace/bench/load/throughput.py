"""Measures throughput: warm up, then count messages and processor time over the steady part."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headrace.bench import processes
from headrace.bench.cases import Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.consumer import prepare_consumer
from headrace.bench.load.publisher import prepare_publisher
from headrace.bench.load.worker_group import Role, SharedCounters, WorkerGroup
from headrace.bench.load_plan import LoadPlan
from headrace.bench.target import Figure, MeasureError, Target, Timing

_serial = itertools.count()


@contextmanager
def laid_out(
    target: Target, case: Case, *, bindings: int = 1
) -> Iterator[tuple[LoadPlan, AmqpConnection]]:
    """The queues and exchanges of a case, on a link of the runner's own; removed in the end."""
    plan = LoadPlan(case, f"hrb{os.getpid():07d}{next(_serial):04d}", bindings=bindings)
    link = AmqpConnection(target.address)
    try:
        plan.set_up(link)
        yield plan, link
    finally:
        link.finish()
        with AmqpConnection(
            target.address
        ) as broom:  # the first link may have been closed by an error
            plan.tear_down(broom)


def crew_of(target: Target, plan: LoadPlan, board: SharedCounters) -> WorkerGroup:
    """Publisher process and, if the case consumes, consumer process."""
    address = target.address
    roles: list[Role] = [lambda: prepare_publisher(address, plan, board)]
    if plan.case.consumers:
        roles.append(lambda: prepare_consumer(address, plan, board))
    return WorkerGroup(board, roles, target.generator_cores)


def measure_flow(target: Target, case: Case, timing: Timing, *, bindings: int = 1) -> Figure:
    """Messages per second of a case.

    Counted are deliveries, or confirms when nothing is consumed, or else what lies in the queues.
    """
    with laid_out(target, case, bindings=bindings) as (plan, link):
        board = SharedCounters(case.pairs, case.pairs * case.consumers)
        with crew_of(target, plan, board) as crew:
            limit = case.limit or 1 << 62
            crew.rest(timing.warmup, lambda: sum(board.sent) >= limit * 0.2)
            start = _look(target, crew, _meter(case, board, plan, link))
            received = list(board.received)
            crew.rest(timing.seconds, lambda: sum(board.sent) >= limit * 0.98)
            end = _look(target, crew, _meter(case, board, plan, link))
            shares = [
                after - before for before, after in zip(received, board.received, strict=True)
            ]
    return _figure(start, end, shares if case.consumers > 1 else [])


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    count: int
    broker: float
    generator: float
    machine: float
    disk: int
    visible: bool


def _meter(
    case: Case, board: SharedCounters, plan: LoadPlan, link: AmqpConnection
) -> Callable[[], int]:
    if case.consumers:
        return lambda: sum(board.received)
    if case.window:
        return lambda: sum(board.confirmed)
    return lambda: sum(link.count(queue) for queue in plan.queues)


def _look(target: Target, crew: WorkerGroup, meter: Callable[[], int]) -> _Sample:
    pids = target.pids
    count = meter()
    return _Sample(
        at=time.monotonic(),
        count=count,
        broker=processes.cpu_seconds(pids),
        generator=processes.cpu_seconds(crew.pids),
        machine=processes.machine_seconds(),
        disk=processes.disk_bytes(pids),
        visible=bool(pids),
    )


def _figure(start: _Sample, end: _Sample, shares: list[int]) -> Figure:
    count, elapsed = end.count - start.count, end.at - start.at
    if count <= 0:
        raise MeasureError("no message went through")
    total = sum(shares)
    details = {f"share {n + 1}": part / total for n, part in enumerate(shares) if total}
    generator = (end.generator - start.generator) / elapsed
    if not start.visible:
        return Figure(count / elapsed, generator_cores=generator, details=details)
    details["disk_bytes"] = (end.disk - start.disk) / count
    used = end.broker - start.broker
    broker = used / elapsed
    other = max(0.0, (end.machine - start.machine) / elapsed - broker - generator)
    return Figure(count / elapsed, used / count * 1e6, broker, generator, other, details)


FEW, MANY = 10, 10_000


def measure_bindings(target: Target, case: Case, timing: Timing) -> Figure:
    """The value is the rate with many bindings; details compare it with few."""
    few = measure_flow(target, case, timing, bindings=FEW)
    many = measure_flow(target, case, timing, bindings=MANY)
    details = {"few_rate": few.value, "many_per_few": many.value / few.value}
    if few.cpu_us is not None:
        details["few_cpu_us"] = few.cpu_us
    return replace(many, details=details)
