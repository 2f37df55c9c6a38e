"""Turns outcomes into tables for people and a dictionary for programs."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from headrace.bench import processes
from headrace.bench.brokers import search_path
from headrace.bench.cases import BACKLOG, WRITE_BYTES, CaseKind
from headrace.bench.runner import CaseResult
from headrace.bench.target import MeasureError, Timing

_SATURATED = 0.85  # cores; above it the generator, not the broker, may set the rate
_DISTURBED = 0.2  # cores used by neither broker nor generator

Cell = Callable[[str, CaseResult], str]
"""What a column shows of a case for one broker."""
Column = tuple[str, Callable[[CaseResult], str]]


def tables(outcomes: list[CaseResult], names: list[str]) -> str:
    """All tables that have a row, failures last."""
    parts = [
        _table(title, columns(names), [one for one in outcomes if one.case.kind in kinds])
        for title, kinds, columns in (
            ("Throughput", (CaseKind.FLOW,), _flow),
            ("Topic bindings (10,000 against 10)", (CaseKind.BINDINGS,), _bindings),
            ("Latency, ms", (CaseKind.LATENCY,), _latency),
            ("Memory, MB: anonymous (all resident)", (CaseKind.IDLE, CaseKind.MEMORY), _memory),
        )
    ]
    parts += [_shares(outcomes, names), _notes(outcomes, names), _failures(outcomes)]
    return "\n\n".join(part for part in parts if part)


def document(
    outcomes: list[CaseResult], names: list[str], header: dict[str, object]
) -> dict[str, object]:
    """Everything measured, round by round."""
    return {"header": header, "brokers": names, "cases": [_entry(o, names) for o in outcomes]}


def _entry(outcome: CaseResult, names: list[str]) -> dict[str, object]:
    return {
        "case": outcome.case.name,
        "about": outcome.case.about,
        "group": outcome.case.group,
        "kind": outcome.case.kind.value,
        "ratio": outcome.ratio(names[0], names[1]) if len(names) > 1 else None,
        "median": {name: outcome.median(name) for name in names},
        "rounds": {name: [asdict(f) for f in found] for name, found in outcome.figures.items()},
        "failures": outcome.failures,
    }


# -- columns -----------------------------------------------------------------------------------


def _flow(names: list[str]) -> list[Column]:
    rates = _each(names, ("msg/s", _median(",.0f")))
    return [_name("case"), *rates, *_ratio(names), *_each(names, ("us", _median(".2f", "cpu_us")))]


def _bindings(names: list[str]) -> list[Column]:
    few, many = _median(",.0f", "few_rate"), _median(",.0f")
    rates = _each(names, ("10", few), ("10,000", many), ("kept", _median(".0%", "many_per_few")))
    costs = (_median(".2f", "few_cpu_us"), _median(".2f", "cpu_us"))

    def cost(one: CaseResult) -> str:
        return ", ".join(f"{n} CPU {costs[0](n, one)} -> {costs[1](n, one)} us" for n in names)

    return [_name(""), *rates, *_ratio(names), ("", cost)]


def _latency(names: list[str]) -> list[Column]:
    times = [(time, _median(".2f", f"{time}_ms")) for time in ("p50", "p99", "max")]
    return [_name("case"), *_each(names, *times), *_ratio(names)]


def _memory(names: list[str]) -> list[Column]:
    def held(name: str, outcome: CaseResult) -> str:
        anonymous, resident = outcome.median(name), outcome.median(name, "rss_mb")
        return "-" if anonymous is None else f"{anonymous:,.0f} ({resident:,.0f})"

    sizes = _each(names, ("held", held), ("growth", _median("+,.0f", "growth_mb")))
    starts = _each(names, ("start s", _median(".2f", "start_seconds")))
    return [_name("case"), *sizes, *_ratio(names), *starts]


def _name(title: str) -> Column:
    return title, lambda outcome: outcome.case.name


def _each(names: list[str], *cells: tuple[str, Cell]) -> list[Column]:
    """These columns for each broker."""
    return [(f"{n} {title}", partial(cell, n)) for n in names for title, cell in cells]


def _median(form: str, figure: str = "value") -> Cell:
    return lambda name, outcome: _number(outcome.median(name, figure), form)


def _ratio(names: list[str]) -> list[Column]:
    if len(names) < 2:
        return []

    def ratio(outcome: CaseResult) -> str:
        return "failed" if outcome.failed else _number(outcome.ratio(*names[:2]), ".2f")

    return [("ratio", ratio)]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(title: str, columns: list[Column], outcomes: list[CaseResult]) -> str:
    """Plain text, first column to the left, the rest to the right; nothing when there is no row."""
    if not outcomes:
        return ""
    full = [[head for head, _ in columns]]
    full += [[cell(outcome) for _, cell in columns] for outcome in outcomes]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]).rstrip()
        for first, *rest in full
    ]
    rule = "-" * max(map(len, lines))
    return "\n".join([title, rule, lines[0], rule, *lines[1:]])


# -- below the tables --------------------------------------------------------------------------


def _shares(outcomes: list[CaseResult], names: list[str]) -> str:
    lines = []
    for outcome in outcomes:
        for name in names:
            shares = [outcome.median(name, f"share {n + 1}") for n in range(outcome.case.consumers)]
            if outcome.case.consumers > 1 and None not in shares:
                parts = " ".join(_number(share, ".1%") for share in shares)
                lines.append(f"{outcome.case.name}, {name}: shares {parts}")
    return "\n".join(lines)


def _failures(outcomes: list[CaseResult]) -> str:
    return "\n".join(
        f"FAILED {outcome.case.name}, {name}: {reason}"
        for outcome in outcomes
        for name, reason in outcome.failures.items()
    )


def _notes(outcomes: list[CaseResult], names: list[str]) -> str:
    found = [(o.case.name, _doubts(o, names)) for o in outcomes]
    lines = [f"note {name}: {doubts}" for name, doubts in found if doubts]
    return "\n".join(lines)


def _doubts(outcome: CaseResult, names: list[str]) -> str:
    """What else than the broker may have set the rate."""
    doubts = []
    for name in names:
        generator = outcome.median(name, "generator_cores") or 0
        broker = outcome.median(name, "broker_cores")
        if broker is not None and generator > _SATURATED > broker:
            doubts.append(f"{name}: generator at its limit")
        other = outcome.median(name, "other_cores") or 0
        if other > _DISTURBED:
            doubts.append(f"{name}: others used {other:.1f} cores")
        if outcome.undurable(name):
            doubts.append(f"{name}: NOT DURABLE, confirmed without writing to disk, no ratio")
    return "; ".join(doubts)


def describe(
    python: str | None, timing: Timing, rounds: int, pin: bool, directory: Path
) -> dict[str, object]:
    cores = len(os.sched_getaffinity(0))
    pinned = "Headrace on one core, its load on another" if pin and cores > 1 else "no pinning"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "machine": f"{platform.machine()}, {cores} cores, {platform.system()} {platform.release()}",
        "headrace": _interpreter(python) if python else "not measured",
        "load": f"Python {platform.python_version()}, publisher and consumer each a process",
        "cores": f"{pinned}; every other broker has all",
        "measurement": f"{rounds} rounds of {timing.seconds:g} s after {timing.warmup:g} s warm-up",
        "messages": f"100 B transient unless said, {WRITE_BYTES // 1024} KiB per write, "
        f"publishers at most {BACKLOG:,} ahead of consumers",
        "data": f"on {processes.filesystem(directory.resolve())}",
    }


def _interpreter(python: str) -> str:
    """The interpreter under Headrace: builds of one version differ by up to 1.8 times."""
    code = (
        "import importlib.util as u, os, platform as p, sys;"
        "print(p.python_implementation(), p.python_version(), 'of',"
        " os.path.realpath(sys.executable) + ',', p.python_compiler() + ',',"
        " 'with uvloop' if u.find_spec('uvloop') else 'without uvloop')"
    )
    environment = os.environ | search_path()
    try:
        found = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, env=environment, timeout=60
        )
    except OSError as error:
        raise MeasureError(f"--python: {error}") from None
    if found.returncode:
        raise MeasureError(f"--python: {python} does not run: {found.stderr.strip()[-200:]}")
    return found.stdout.strip()
