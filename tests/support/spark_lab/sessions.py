"""Spark as the tests start it: small, and with the Python and the package under test."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = str(Path(__file__).parents[2])
SRC = str(Path(__file__).parents[3] / "src")
STARTUP = str(Path(__file__).parent / "startup")

_shared: list[Any] = []


def new_session(master: str = "local[2]", **settings: str) -> Any:  # noqa: ANN401 - pyspark's own
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [SRC, STARTUP, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    chosen = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.authenticate.socketTimeout": "120s",
        **settings,
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def reading_by(spark: Any, way: str) -> Iterator[None]:  # noqa: ANN401
    """Make the jar read `files`, over the `network`, or leave everything to `python`."""
    system = spark.sparkContext._jvm.java.lang.System
    system.setProperty("headrace.spark.read", way)
    try:
        yield
    finally:
        system.clearProperty("headrace.spark.read")


def shared_session() -> Any:  # noqa: ANN401
    """The session of this process: starting one takes longer than most tests."""
    if not _shared:
        _shared.append(new_session())
    return _shared[0]


def end_shared_session() -> None:
    """End it, and the JVM, and let go of every socket to it."""
    if not _shared:
        return
    session = _shared.pop()
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    SparkContext = type(session.sparkContext)
    SparkContext._gateway = SparkContext._jvm = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del session, gateway
        gc.collect()
