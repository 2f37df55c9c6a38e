"""The Spark session of our commands, and the Java process it runs in."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.spark.class_archive import ClassArchive, class_archive
from headrace.spark.errors import SparkMissing
from headrace.spark.jar import jar

_JAVA_OPTIONS_KEY = "spark.driver.defaultJavaOptions"
LOCAL = "local[*,4]"  # all cores; a task may fail while a broker starts again, as on a cluster
_JAVA_VERSION = 17
_INSTALL = "install a JRE, e.g. `apt install openjdk-17-jre-headless`, or set JAVA_HOME"
# A thread that fails on a full heap leaves Python waiting for it: let the whole process exit.
JAVA_OPTIONS = "-XX:+ExitOnOutOfMemoryError"
_OUT_OF_MEMORY = (3, 52)  # exit codes of that, and of Spark's own handler
JAVA_EXIT_SECONDS = 5.0  # between its last output and its exit
_STOP_SECONDS = 60.0  # it may write an archive of classes when it exits
_archive = ClassArchive()  # of the Java that was started


def start_session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    python_path: Path | None = None,
    may_record: bool = False,
) -> SparkSession:
    """A session, or the one there is. What Java and its workers print goes to ``log`` if given.

    ``python_path`` is where workers find modules of the user's own. ``may_record``: an archive of
    classes, when it ends.
    """
    java = check_java()
    jar()  # refuses one of another version
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python_path is not None:
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(python_path), known)))
    settings = SparkConf(loadDefaults=False).setAppName(name).setMaster(master or LOCAL)
    settings.setAll([*settings_of(master, conf).items()])
    try:
        with _signals_wait(), _errors_to(log):
            start_java(settings, class_archive(java, may_record=may_record))
            session = SparkSession.builder.config(conf=settings).getOrCreate()
    except Exception as error:
        hint = f"; see {log}" if log is not None else ""
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise SparkMissing(f"Spark did not start: {text[0]}{hint}") from error

    # It writes a page of JSON about every query that cannot be understood; we say it in a line.
    logging.getLogger("SQLQueryContextLogger").disabled = log is not None
    logging.getLogger("py4j").setLevel(logging.WARNING if log is None else logging.CRITICAL + 1)
    if log is not None:
        _hush(session)
    return session


def _hush(session: SparkSession) -> None:
    """Silence the accumulator thread, which prints a stack trace when Java has exited."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Deliver SIGTERM and Ctrl-C after the block. A Java process that is left before it has
    reported its port never exits; and Spark installs a handler that calls Java at any point."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    kept = [(each, signal.signal(each, note)) for each in (signal.SIGTERM, signal.SIGINT)]
    try:
        yield
    finally:
        for number, handler in kept:
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


def settings_of(master: str | None, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Defaults, overridden by the user's; Java exits on a full heap whatever its other options."""
    chosen = {**_defaults(master), **(conf or {})}
    if JAVA_OPTIONS not in chosen[_JAVA_OPTIONS_KEY]:
        chosen[_JAVA_OPTIONS_KEY] = f"{JAVA_OPTIONS} {chosen[_JAVA_OPTIONS_KEY]}"
    return chosen


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
        _JAVA_OPTIONS_KEY: JAVA_OPTIONS,
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


def check_java() -> str:
    """Which Java it is; SparkMissing unless there is one that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java is on the PATH"
        raise SparkMissing(f"Spark needs Java {_JAVA_VERSION} or later, but {where}: {_INSTALL}")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found is not None and int(found[1]) < _JAVA_VERSION:
        raise SparkMissing(
            f"Spark needs Java {_JAVA_VERSION} or later, but {java} is {found[1]}: {_INSTALL}"
        )
    return f"{Path(java).resolve()} {done.stderr}{done.stdout}"


def start_java(settings: SparkConf, archive: ClassArchive) -> None:
    """Start Java in a separate process group, so that Ctrl-C and `kill -- -GROUP` reach only this
    process, which lets the batch end and Java with it. Service managers signal every process: Java
    ignores SIGTERM and exits with this process.
    """
    if SparkContext._gateway is not None:
        return
    global _archive
    _archive, plain = archive, settings.get(_JAVA_OPTIONS_KEY, "")
    settings.set(_JAVA_OPTIONS_KEY, f"{archive.options}{plain}")
    settled = {"process_group": 0, "stdout": 2}  # the output is ours alone
    try:
        gateway = launch_gateway(settings, settled)  # type: ignore[no-untyped-call]
    except PySparkRuntimeError:
        if not archive.options:
            raise
        with suppress(OSError):
            archive.file.unlink()  # it may be the reason
        start_java(settings.set(_JAVA_OPTIONS_KEY, plain), ClassArchive())
        return
    SparkContext._ensure_initialized(gateway=gateway)
    signals = SparkContext._jvm.sun.misc  # type: ignore[union-attr]
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


def java_exit_reason(patience: float = 0.0) -> str:
    """Why Java exited, or an empty string while it runs; waits up to ``patience`` seconds."""
    process = _java()
    if process is None:
        return ""
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        return ""
    more = "increase it, for example with --conf spark.driver.memory=4g"
    if code in _OUT_OF_MEMORY:
        return f"Spark's Java process ran out of memory: {more}"
    if code == -signal.SIGKILL:
        return f"Spark's Java process was killed, perhaps because memory ran out: {more}"
    return f"Spark's Java process exited with code {code}"


def stop_java() -> None:
    """Stop Java at once: it exits when its standard input is closed."""
    process = _java()
    if process is None:
        return
    with suppress(OSError):
        process.stdin.close()
    try:
        _archive.finish(is_whole=process.wait(_STOP_SECONDS) == 0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        _archive.finish(is_whole=False)
    # That it has exited explains nothing.
    SparkContext._gateway.proc = None  # type: ignore[union-attr]


def _java() -> Any:  # noqa: ANN401 - a Popen that pyspark keeps
    return getattr(SparkContext._gateway, "proc", None)
