"""A Spark session for our commands: what it needs, how it starts, where its chatter goes."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.spark.errors import SparkMissing

JAVA_WANTED = 17
LOCAL = "local[*,4]"  # all cores; a task may fail while a broker starts again, as on a cluster
INSTALL = "install a JRE, e.g. `apt install openjdk-17-jre-headless`, or set JAVA_HOME"


def check_java() -> None:
    """SparkMissing unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none"
        raise SparkMissing(f"Spark needs Java {JAVA_WANTED} or later, and {where}: {INSTALL}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found is not None and int(found[1]) < JAVA_WANTED:
        raise SparkMissing(
            f"Spark needs Java {JAVA_WANTED} or later, and {java} is {found[1]}: {INSTALL}"
        )


def start_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    python_path: Path | None = None,
) -> SparkSession:
    """A session, or the one there is. What Java and its workers print goes to ``log`` if given.

    ``python_path`` is where workers find modules of the user's own.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python_path is not None:
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(python_path), known)))
    builder = SparkSession.builder.appName(name).master(master or LOCAL)
    for key, value in {**_defaults(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        with _errors_to(log):
            session = builder.getOrCreate()
    except Exception as error:
        hint = f"; {log} has what it said" if log is not None else ""
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise SparkMissing(f"Spark did not start: {text[0]}{hint}") from error

    # It writes a page of JSON about every query that cannot be understood; we say it in a line.
    logging.getLogger("SQLQueryContextLogger").disabled = log is not None
    logging.getLogger("py4j").setLevel(logging.WARNING if log is None else logging.CRITICAL + 1)
    return session


def _defaults(master: str | None) -> dict[str, str]:
    """Every time in every table is UTC. On one machine few large tasks beat many small ones."""
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "headrace-warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A busy machine needs more than the 15 s in which a worker has to say hello.
        "spark.python.authenticate.socketTimeout": "120s",
    }
    if master is None or master.startswith("local"):
        found["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
        found["spark.driver.host"] = found["spark.driver.bindAddress"] = "127.0.0.1"
    return found


@contextmanager
def _errors_to(log: Path | None) -> Iterator[None]:
    """Processes started inside write their standard error to the file, for as long as they live."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)
