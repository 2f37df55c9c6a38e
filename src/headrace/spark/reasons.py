"""One clear line out of what Spark, its workers and Java say when something fails. Pure."""

from __future__ import annotations

import re

from headrace.spark.errors import SparkError

_OURS = re.compile(r"(?:headrace\.\w[\w.]*\.)?(\w+): (.+)")
_NAMES = frozenset(one.__name__ for one in SparkError.__subclasses__()) | {"SparkError"}
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Refused)): (.+)$")
_CLASS = re.compile(r"^\[([A-Z0-9_.]+)\]\s*(.+)$")
_NOISE = ("SQLSTATE:", "JVM stacktrace", "== SQL", "pyspark.errors.", "Py4J")
LONGEST = 500


def reason_of(error: BaseException) -> str:
    """What to tell the user."""
    if isinstance(error, SparkError):
        return str(error)
    return reason_in(str(error)) or type(error).__name__


def reason_in(text: str) -> str:
    """The most telling line of a message that may hold several stack traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = _our_own(lines) or _of_python(lines) or _of_spark(lines)
    return found[:LONGEST]


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
