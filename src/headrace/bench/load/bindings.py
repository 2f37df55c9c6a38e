"""Measures what many topic bindings cost: the same publishes with 10 and with 10,000 of them."""

from __future__ import annotations

from dataclasses import replace

from headrace.bench.cases import Case
from headrace.bench.load.throughput import measure_flow
from headrace.bench.target import Figure, Target, Timing

FEW, MANY = 10, 10_000


def measure_bindings(target: Target, case: Case, timing: Timing) -> Figure:
    """The value is the rate with many bindings; details compare it with few."""
    few = measure_flow(target, case, timing, bindings=FEW)
    many = measure_flow(target, case, timing, bindings=MANY)
    details = {"few_rate": few.value, "many_per_few": many.value / few.value}
    if few.cpu_us is not None:
        details["few_cpu_us"] = few.cpu_us
    return replace(many, details=details)
