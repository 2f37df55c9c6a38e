"""Turns outcomes into tables for people and a dictionary for programs."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from headrace.bench import processes
from headrace.bench.brokers import search_path
from headrace.bench.cases import BACKLOG, WRITE_BYTES, CaseKind
from headrace.bench.errors import MeasureError
from headrace.bench.runner import CaseResult
from headrace.bench.target import Timing

_SATURATED = 0.85  # cores; above it the generator, not the broker, may set the rate
_DISTURBED = 0.2  # cores used by neither broker nor generator

Row = list[str]


def tables(outcomes: list[CaseResult], names: list[str]) -> str:
    """All tables that have a row, failures last."""
    kinds = (
        ("Throughput", _flow_head, _flow_row, (CaseKind.FLOW,)),
        ("Topic bindings (10,000 against 10)", _binding_head, _binding_row, (CaseKind.BINDINGS,)),
        ("Latency, ms", _latency_head, _latency_row, (CaseKind.LATENCY,)),
        (
            "Memory, MB: anonymous (all resident)",
            _memory_head,
            _memory_row,
            (CaseKind.IDLE, CaseKind.MEMORY),
        ),
    )
    parts = [
        _table(title, head(names), [row(one, names) for one in outcomes if one.case.kind in kind])
        for title, head, row, kind in kinds
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


# -- rows --------------------------------------------------------------------------------------


def _flow_head(names: list[str]) -> Row:
    rates, costs = [f"{n} msg/s" for n in names], [f"{n} us" for n in names]
    return ["case", *rates, *_ratio_head(names), *costs]


def _flow_row(outcome: CaseResult, names: list[str]) -> Row:
    rates = [_number(outcome.median(name), ",.0f") for name in names]
    costs = [_number(outcome.median_of(name, lambda f: f.cpu_us), ".2f") for name in names]
    return [outcome.case.name, *rates, *_ratio(outcome, names), *costs]


def _notes(outcomes: list[CaseResult], names: list[str]) -> str:
    found = [(o.case.name, _doubts(o, names)) for o in outcomes]
    lines = [f"note {name}: {doubts}" for name, doubts in found if doubts]
    return "\n".join(lines)


def _doubts(outcome: CaseResult, names: list[str]) -> str:
    """What else than the broker may have set the rate."""
    doubts = []
    for name in names:
        generator = outcome.median_of(name, lambda f: f.generator_cores) or 0
        broker = outcome.median_of(name, lambda f: f.broker_cores)
        if broker is not None and generator > _SATURATED > broker:
            doubts.append(f"{name}: generator at its limit")
        other = outcome.median_of(name, lambda f: f.other_cores) or 0
        if other > _DISTURBED:
            doubts.append(f"{name}: others used {other:.1f} cores")
        if outcome.undurable(name):
            doubts.append(f"{name}: NOT DURABLE, confirmed without writing to disk, no ratio")
    return "; ".join(doubts)


def _binding_head(names: list[str]) -> Row:
    return ["", *(f"{n} {w}" for n in names for w in ("10", "10,000", "kept")), *_ratio_head(names)]


def _binding_row(outcome: CaseResult, names: list[str]) -> Row:
    cells = []
    for name in names:
        cells.append(_number(outcome.median(name, "few_rate"), ",.0f"))
        cells.append(_number(outcome.median(name), ",.0f"))
        cells.append(_number(outcome.median(name, "many_per_few"), ".0%"))
    costs = ", ".join(_binding_costs(outcome, names))
    return [outcome.case.name, *cells, *_ratio(outcome, names), costs]


def _binding_costs(outcome: CaseResult, names: list[str]) -> list[str]:
    return [
        f"{name} CPU {_number(outcome.median(name, 'few_cpu_us'), '.2f')} -> "
        f"{_number(outcome.median_of(name, lambda f: f.cpu_us), '.2f')} us"
        for name in names
    ]


def _latency_head(names: list[str]) -> Row:
    return [
        "case",
        *(f"{n} {w}" for n in names for w in ("p50", "p99", "max")),
        *_ratio_head(names),
    ]


def _latency_row(outcome: CaseResult, names: list[str]) -> Row:
    keys = ("p50_ms", "p99_ms", "max_ms")
    cells = [_number(outcome.median(name, key), ".2f") for name in names for key in keys]
    return [outcome.case.name, *cells, *_ratio(outcome, names)]


def _memory_head(names: list[str]) -> Row:
    columns = [f"{n} {w}" for n in names for w in ("held", "growth")]
    return ["case", *columns, *_ratio_head(names), *(f"{n} start s" for n in names)]


def _memory_row(outcome: CaseResult, names: list[str]) -> Row:
    cells = []
    for name in names:
        held, resident = outcome.median(name), outcome.median(name, "rss_mb")
        cells.append("-" if held is None else f"{held:,.0f} ({resident:,.0f})")
        cells.append(_number(outcome.median(name, "growth_mb"), "+,.0f"))
    starts = [_number(outcome.median(name, "start_seconds"), ".2f") for name in names]
    return [outcome.case.name, *cells, *_ratio(outcome, names), *starts]


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


# -- cells -------------------------------------------------------------------------------------


def _ratio_head(names: list[str]) -> Row:
    return ["ratio"] if len(names) > 1 else []


def _ratio(outcome: CaseResult, names: list[str]) -> Row:
    if len(names) < 2:
        return []
    return ["failed" if outcome.failed else _number(outcome.ratio(names[0], names[1]), ".2f")]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _table(title: str, head: Row, rows: Sequence[Row]) -> str:
    """Plain text, first column to the left, the rest to the right; nothing when there is no row."""
    if not rows:
        return ""
    count = max(map(len, [head, *rows]))
    full = [[*row, *[""] * (count - len(row))] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in full) for column in range(count)]
    lines = [_line(row, widths) for row in full]
    rule = "-" * max(map(len, lines))
    return "\n".join([title, rule, lines[0], rule, *lines[1:]])


def _line(row: Row, widths: list[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
    cells[0] = row[0].ljust(widths[0])
    return "  ".join(cells).rstrip()


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
    environment = os.environ | search_path(python)
    try:
        found = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, env=environment, timeout=60
        )
    except OSError as error:
        raise MeasureError(f"--python: {error}") from None
    if found.returncode:
        raise MeasureError(f"--python: {python} does not run: {found.stderr.strip()[-200:]}")
    return found.stdout.strip()
