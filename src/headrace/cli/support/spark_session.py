"""Options and session of the Spark commands; errors in one line."""

from __future__ import annotations

import functools
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from headrace.cli.support.options import flag, repeatable
from headrace.cli.support.output import progress_bar
from headrace.cli.support.signals import handled_signals, interrupt
from headrace.client.settings import Settings
from headrace.errors import CommandFailed, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIGNALS = (signal.SIGTERM, signal.SIGINT)

debug_option = flag("--debug", "Show stack traces and Spark's log.")
state_option = click.option(
    "--state-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="For states, checkpoints and logs. [HEADRACE_STATE_DIR, ~/.local/state/headrace]",
)


lake_option = click.option(
    "--lake",
    metavar="DIR",
    default=Path("headrace-lake"),
    envvar="HEADRACE_LAKE",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the archive. [HEADRACE_LAKE, or ./headrace-lake]",
)


def url_of(address: Settings) -> str:
    """For the data source."""
    user, password = quote(str(address.user), safe=""), quote(address.password, safe="")
    return f"headrace://{user}:{password}@{address.where}/{quote(address.vhost, safe='')}"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What `spark_options` were given."""

    master: str | None
    conf: tuple[str, ...]
    state_dir: Path | None
    debug: bool

    def state(self) -> Path:
        """The directory for states, checkpoints and logs."""
        from headrace.spark.pipelines.status import state_directory

        return state_directory(self.state_dir, os.environ)


def spark_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds --master, --conf, --state-dir and --debug; the function gets them as ``session``."""

    @click.option(
        "--master", metavar="URL", help="spark://host:port, yarn, k8s://..., local[N]. [local[*,4]]"
    )
    @repeatable("--conf", "conf", "KEY=VALUE", "A setting of Spark; repeatable.")
    @state_option
    @debug_option
    @with_spark_errors
    @functools.wraps(function)
    def with_session(
        master: str | None,
        conf: tuple[str, ...],
        state_dir: Path | None,
        debug: bool,
        **rest: object,
    ) -> int:
        return function(session=SessionSettings(master, conf, state_dir, debug), **rest)

    return with_session


@contextmanager
def spark_errors(debug: bool) -> Iterator[None]:
    """Turn failures into one line: exit code 2 for invalid input, else 1."""
    try:
        import pyspark  # noqa: F401 - before the others: it is what people know
        from deltalake.exceptions import DeltaError
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyarrow import ArrowException
        from pyspark.errors import PySparkException

        from headrace.spark import errors, spark_session
        from headrace.spark.errors import reason_of
    except ImportError as error:
        if debug:
            traceback.print_exc()
        lacking = (error.name or "a package").partition(".")[0]
        raise CommandFailed(
            f"this command needs Spark, but {lacking} is not installed: "
            "pip install 'headrace[spark]'"
        ) from None
    # EOFError is what pyspark makes of a Java that is gone while it is read from.
    expected = (errors.SparkError, PySparkException, Py4JError, DeltaError, ArrowException, OSError,
            EOFError)  # fmt: skip
    cut_off = (Py4JError, ConnectionError, EOFError)
    try:
        yield
    except expected as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, errors.BadPipeline | errors.BadOption):
            raise ConfigError(reason_of(error)) from None
        is_cut_off = isinstance(error, cut_off) and not isinstance(error, Py4JJavaError)
        gone = spark_session.java_exit_reason(
            spark_session.JAVA_EXIT_SECONDS if is_cut_off else 0.0
        )
        raise CommandFailed(gone or reason_of(error)) from None


def with_spark_errors(function: Callable[..., int]) -> Callable[..., int]:
    """For commands with --debug. SIGTERM ends them as Ctrl-C does, unless they handle it."""

    @functools.wraps(function)
    def with_errors(debug: bool, **rest: object) -> int:
        with handled_signals(interrupt, *SIGNALS), spark_errors(debug):
            try:
                return function(debug=debug, **rest)
            except KeyboardInterrupt as error:
                raise CommandFailed(str(error) or "interrupted") from None

    return with_errors


def on_signals(call: Callable[[], None]) -> None:
    """What SIGTERM and Ctrl-C do from now on."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        call()

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, on_signal)


def settings_of(conf: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in conf]
    for key, sign, _ in pairs:
        if not sign or not key:
            raise click.UsageError(f"--conf {key}: expected KEY=VALUE")
    return {key: value for key, _, value in pairs}


@contextmanager
def open_session(
    name: str,
    session: SessionSettings,
    *,
    python_path: Path | None = None,
    broker: Settings | None = None,
    may_record: bool = False,
) -> Iterator[SparkSession]:
    """A session whose log goes to a file; it ends with the block.

    An unreachable ``broker`` is reported before Spark starts, which takes a while. ``may_record``:
    an archive of classes, for later sessions. An interrupted one may be in the middle of a call,
    which would have to end first: then Java is killed. A dead session needs no shutdown.
    """
    from headrace.spark import spark_session
    from headrace.spark.spark_session import start_session

    state = session.state()
    settings = settings_of(session.conf)
    log = None if session.debug else state / "logs" / f"{name}-{os.getpid()}.log"
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    if broker is not None:
        from headrace.spark.backends.broker import connect

        spark_session.check_java()
        connect(url_of(broker)).close()
    with progress_bar("starting Spark", wanted=not session.debug):
        spark = start_session(
            name,
            master=session.master,
            conf=settings,
            log=log,
            python_path=python_path,
            may_record=may_record,
        )
    try:
        yield spark
    except KeyboardInterrupt:
        on_signals(lambda: None)  # once is enough
        spark_session.stop_java()
        raise
    except BaseException:
        if not spark_session.java_exit_reason():
            spark.stop()
        raise
    spark.stop()
