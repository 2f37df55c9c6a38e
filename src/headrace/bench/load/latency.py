"""Measures latency: paced publishes that carry their send time, received on another connection."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Sequence

from headrace.bench.cases import Case
from headrace.bench.load.amqp_connection import AmqpConnection
from headrace.bench.load.throughput import laid_out
from headrace.bench.load.worker_group import SharedCounters, WorkerGroup
from headrace.bench.load_plan import LoadPlan
from headrace.bench.target import AmqpAddress, Figure, MeasureError, Target, Timing

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
