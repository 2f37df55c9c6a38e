"""The Java that Spark runs in: whether there is one, how it starts, how and why it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from headrace.spark.errors import SparkMissing

WANTED = 17
INSTALL = "install a JRE, e.g. `apt install openjdk-17-jre-headless`, or set JAVA_HOME"
# A thread that dies of a full heap leaves Python waiting for it: better all of Java dies.
OPTIONS = "-XX:+ExitOnOutOfMemoryError"
OUT_OF_MEMORY = (3, 52)  # exit codes of that, and of Spark's own handler
DYING_SECONDS = 5.0  # between its last word and its end
ENDING_SECONDS = 20.0


def check() -> None:
    """SparkMissing unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none"
        raise SparkMissing(f"Spark needs Java {WANTED} or later, and {where}: {INSTALL}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found is not None and int(found[1]) < WANTED:
        raise SparkMissing(
            f"Spark needs Java {WANTED} or later, and {java} is {found[1]}: {INSTALL}"
        )


def start(settings: SparkConf) -> None:
    """In a process group of its own: whoever ends ours, with Ctrl-C or `kill -- -GROUP`, means us.
    We let the batch end, and Java with it. Service managers signal every process: that of Java
    does not listen, it ends when we do.
    """
    if SparkContext._gateway is not None:
        return
    settled = {"process_group": 0, "stdout": 2}  # the output is ours alone
    gateway = launch_gateway(settings, settled)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)
    signals = SparkContext._jvm.sun.misc  # type: ignore[union-attr]
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


def end_of(patience: float = 0.0) -> str:
    """Why Java is gone, or nothing while it lives. One that is just ending is waited for."""
    process = _java()
    if process is None:
        return ""
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        return ""
    more = "give it more, e.g. --conf spark.driver.memory=4g"
    if code in OUT_OF_MEMORY:
        return f"Spark's Java ran out of memory and ended: {more}"
    if code == -signal.SIGKILL:
        return f"Spark's Java was killed. If that was for want of memory, {more}"
    return f"Spark's Java ended with code {code}"


def end() -> None:
    """At once, whatever it does: it ends when nobody holds its standard input any more."""
    process = _java()
    if process is None:
        return
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _java() -> Any:  # noqa: ANN401 - a Popen that pyspark keeps
    return getattr(SparkContext._gateway, "proc", None)
