"""Commands of the Spark side as processes: started, signalled, waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headrace.testing import wait_for
from support.spark_lab.processes import java_of
from support.spark_lab.sessions import SRC, STARTUP

SECONDS = 240.0


def started(*command: str, state: Path, classes: Path | str = "") -> subprocess.Popen[str]:
    """In a process group of its own, as a shell and a service manager start it; with an archive of
    Spark's classes only if it is named."""
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", *command, "--state-dir", str(state)],
        env={
            **os.environ,
            "PYTHONPATH": f"{SRC}:{STARTUP}",
            "HEADRACE_SPARK_CLASSES": str(classes),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def until_java(process: subprocess.Popen[str]) -> None:
    wait_for(lambda: java_of(process.pid) or process.poll() is not None, SECONDS, 0.1)
    assert process.poll() is None, ended(process)
