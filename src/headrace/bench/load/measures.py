"""Measures throughput: warm up, then count messages and processor time over the steady part."""

from __future__ import annotations

import itertools
import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headrace.bench import processes
from headrace.bench.cases import Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.streams import prepare_consumer, prepare_publisher
from headrace.bench.load.worker_group import Role, SharedCounters, WorkerGroup
from headrace.bench.load_plan import LoadPlan
from headrace.bench.processes import Memory
from headrace.bench.target import AmqpAddress, Figure, MeasureError, Target, Timing

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


RATE = 2000
_STAMP = struct.Struct(">Q")


def measure_latency(target: Target, case: Case, timing: Timing) -> Figure:
    """The value is the median in milliseconds; details have p50, p99 and max."""
    warm, total = (int(RATE * span) for span in (timing.warmup, timing.warmup + timing.seconds))
    board = SharedCounters(1, 1, samples=total)
    with laid_out(target, case) as (plan, _):
        roles = [
            lambda: _prepare_publisher(target.address, plan, board, total),
            lambda: _prepare_consumer(target.address, plan, board, total),
        ]
        with WorkerGroup(board, roles, target.generator_cores) as crew:
            limit = timing.warmup + timing.seconds + 5
            crew.rest(limit, lambda: board.received[0] >= total)
    count = board.received[0]
    if count <= warm:
        raise MeasureError("no message was received")
    steady = sorted(board.samples[warm:count])
    details = {
        "p50_ms": percentile(steady, 50) / 1e6,
        "p99_ms": percentile(steady, 99) / 1e6,
        "max_ms": steady[-1] / 1e6,
        "lost": float(total - count),
    }
    return Figure(details["p50_ms"], details=details)


def percentile(ordered: Sequence[int], percent: float) -> int:
    """Nearest rank: the smallest value with at least `percent` of all values at or below it."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _prepare_publisher(
    address: AmqpAddress, plan: LoadPlan, board: SharedCounters, total: int
) -> Callable[[], None]:
    link = AmqpConnection(address)
    block = next(plan.blocks(0))
    message = bytearray(block.data[: block.size])
    stamp_at = block.size - 1 - plan.case.body

    def loop() -> None:
        link.set_timeout(0.25)
        start = time.monotonic_ns()
        for number in range(total):
            due = start + number * 1_000_000_000 // RATE
            wait = due - time.monotonic_ns()
            if wait > 0:  # a late wake-up does no harm: the stamp is taken when it is sent
                time.sleep(wait / 1e9)
            if board.stopped:
                break
            _STAMP.pack_into(message, stamp_at, time.monotonic_ns())
            link.sock.sendall(message)
        link.finish()

    return loop


def _prepare_consumer(
    address: AmqpAddress, plan: LoadPlan, board: SharedCounters, total: int
) -> Callable[[], None]:
    link = AmqpConnection(address)
    link.consume(plan.queues[0], plan.tags[0], auto_ack=True)
    link.set_timeout(0.25)
    size = plan.delivery_size
    stamp_at = size - 1 - plan.case.body

    def loop() -> None:
        rest, count = b"", 0
        while not board.stopped and count < total:
            try:
                data = link.sock.recv(65_536)
            except BlockingIOError:
                continue
            now = time.monotonic_ns()
            if not data:
                raise MeasureError("the broker closed the consumer's connection")
            data = rest + data
            whole = len(data) // size
            for number in range(whole):
                (sent,) = _STAMP.unpack_from(data, number * size + stamp_at)
                board.samples[count] = now - sent
                count += 1
            rest = data[whole * size :]
            board.received[0] = count
        link.sock.close()

    return loop


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
