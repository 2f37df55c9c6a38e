"""The broker's own log: text for people, JSON lines for machines. To standard error."""

from __future__ import annotations

import json
import logging
import sys


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(level: str, form: str) -> None:
    """Set up the `headrace` loggers, and uvicorn's for what it says about the HTTP port; called
    once, by the command line only."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    for name in ("headrace", "uvicorn"):
        root = logging.getLogger(name)
        root.handlers[:] = [handler]
        root.propagate = False
    logging.getLogger("headrace").setLevel(level.upper())
