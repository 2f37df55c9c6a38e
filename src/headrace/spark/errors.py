"""Errors of the Spark integration, and one-line reasons from failures of Spark and Java."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


class SparkError(Exception):
    """Base of everything the Spark side raises on purpose."""


class BadOption(SparkError):
    """An option is missing, unknown or cannot be used; nothing was read or written."""


class SourceChanged(SparkError):
    """A queue or topic was deleted, or deleted and created again: the messages of the checkpoint no
    longer exist."""


class CheckpointLost(SparkError):
    """A query starts without a checkpoint under a name that an earlier run has pinned: what that
    run had read is unknown."""


class DataLost(SparkError):
    """Messages that had to be read were removed by retention or acknowledged without a pin."""


class SparkMissing(SparkError):
    """Java is missing or too old, or Spark did not start; the text names what to install."""


class BadPipeline(SparkError):
    """A pipeline file is not valid; the text begins with file and line. Nothing was run."""


class PipelineFailed(SparkError):
    """A query of a pipeline failed. What it committed is kept; a restart continues from there."""


class SinkRefused(SparkError):
    """A sink cannot store the rows: its table has other columns, or a key column is missing."""


class LakeError(SparkError):
    """A lake is missing, is not a Delta table, or another program is writing to it."""


_OURS = re.compile(r"(?:^|.*\bheadrace\.\w[\w.]*\.)(\w+): (.+)")  # Java's come behind other text
_NAMES = frozenset(one.__name__ for one in SparkError.__subclasses__()) | {"SparkError"}
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Refused)): (.+)$")
_CLASS = re.compile(r"^\[([A-Z0-9_.]+)\]\s*(.+)$")
_NOISE = ("SQLSTATE:", "JVM stacktrace", "== SQL", "pyspark.errors.", "Py4J")
LONGEST = 500


def reason_of(error: BaseException) -> str:
    """The failure in one line, for the user."""
    if isinstance(error, SparkError):
        return str(error)
    return reason_in(str(error)) or type(error).__name__


def refusal_of(error: PySparkException, what: str, known: Sequence[str]) -> str:
    """The reason why a query is refused; for an unknown table or view with the known ones."""
    if "TABLE_OR_VIEW_NOT_FOUND" not in str(error.getCondition()):
        return reason_of(error)
    wanted = (error.getMessageParameters() or {}).get("relationName", "")
    return f"unknown {what} {wanted}; expected one of {', '.join(known)}"


def reason_in(text: str) -> str:
    """The line that names the cause in a message that may hold several stack traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = _our_own(lines) or _known(text) or _of_python(lines) or _of_spark(lines)
    return found[:LONGEST]


_OTHER_PYTHON = "set PYSPARK_PYTHON (or spark.pyspark.python) to the Python that has headrace"
_TROUBLES = {  # of Spark, whose own words do not say what to do
    r"Python worker (failed to|did not) connect back": "a Python worker of Spark did not start in "
    f"time: {_OTHER_PYTHON}, or on a busy machine --conf "
    "spark.python.authenticate.socketTimeout=300s",
    r"\[DATA_SOURCE_NOT_(FOUND|EXIST)\].*headrace": "Spark runs another Python, without headrace: "
    f"{_OTHER_PYTHON}",
    r"PYTHON_VERSION_MISMATCH|different (minor )?version than that in driver": "the workers run "
    f"another version of Python than the driver: {_OTHER_PYTHON}, on every machine",
    r"java\.lang\.OutOfMemoryError|GC overhead limit exceeded": "Spark's Java process ran out of "
    "memory: increase it, for example with --conf spark.driver.memory=4g (or "
    "spark.executor.memory on a cluster)",
    r"No space left on device": "no space is left on a disk that Spark uses: set SPARK_LOCAL_DIRS "
    "to a directory with room for its temporary files",
    r"Service 'sparkDriver' failed|Cannot assign requested address": "Spark cannot listen on the "
    "address of this host: set SPARK_LOCAL_IP=127.0.0.1",
    r"All masters are unresponsive": "no Spark master answers at the URL of --master",
    r"UnsupportedClassVersionError": "the Java on a worker is older than 17: set JAVA_HOME there",
}


def _known(text: str) -> str:
    return next((advice for known, advice in _TROUBLES.items() if re.search(known, text)), "")


def _our_own(lines: list[str]) -> str:
    for line in reversed(lines):
        match = _OURS.match(line)
        if match is not None and match[1] in _NAMES:
            return match[2]
    return ""


def _of_python(lines: list[str]) -> str:
    """The last exception of a Python traceback, if there is one."""
    if not any("Traceback (most recent call last)" in line for line in lines):
        return ""
    for line in reversed(lines):
        match = _PYTHON.match(line)
        if match is not None and not line.startswith(_NOISE):
            return f"{match[1].rpartition('.')[2]}: {match[2]}"
    return ""


def _of_spark(lines: list[str]) -> str:
    if not lines:
        return ""
    match = _CLASS.match(lines[0])
    text = match[2] if match is not None else lines[0]
    return re.sub(r"\s*SQLSTATE: \w+|;? \(?line \d+,? pos \d+\)?;?", "", text).strip()
