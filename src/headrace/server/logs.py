"""The broker's own log: text for people, JSON lines for machines. To standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime


class _JsonFormatter(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        return moment.isoformat(timespec="milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(level: str, form: str) -> None:
    """Set up the `headrace` loggers, uvicorn's for what it says about the HTTP port, and asyncio's
    for mishaps that nobody caught; called once, by the command line only."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    for name in ("headrace", "uvicorn", "asyncio"):
        root = logging.getLogger(name)
        root.handlers[:] = [handler]
        root.propagate = False
    logging.getLogger("headrace").setLevel(level.upper())
