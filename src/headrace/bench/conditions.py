"""Under which conditions a run was made: without them its figures say nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

from headrace.bench import procfs
from headrace.bench.brokers import search_path
from headrace.bench.cases import BACKLOG, WRITE_BYTES
from headrace.bench.errors import MeasureError
from headrace.bench.target import Timing


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
        "data": f"on {procfs.filesystem(directory.resolve())}",
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
