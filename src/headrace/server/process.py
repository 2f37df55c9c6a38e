"""The broker's own log: text for people, JSON lines for machines. To standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime

# Names come from outside. Control characters in them could forge lines or drive a terminal, and
# marks of direction could turn text around.
_UNSAFE = (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F),
           *range(0x2066, 0x206A))  # fmt: skip
_QUOTED = {code: repr(chr(code))[1:-1] for code in _UNSAFE}
_QUOTED_IN_JSON = {code: f"\\u{code:04x}" for code in _UNSAFE}


class _TextFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_QUOTED)

    def format(self, record: logging.LogRecord) -> str:
        first, *more = super().format(record).split("\n")  # of a traceback
        return "\n".join([first, *("  | " + line.translate(_QUOTED) for line in more)])


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
        return json.dumps(entry, ensure_ascii=False).translate(_QUOTED_IN_JSON)


def configure_logging(level: str, form: str) -> None:
    """Set up the `headrace` loggers, uvicorn's for what it says about the HTTP port, and asyncio's
    for mishaps that nobody caught; called once, by the command line only."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    for name in ("headrace", "uvicorn", "asyncio"):
        root = logging.getLogger(name)
        root.handlers[:] = [handler]
        root.propagate = False
    logging.getLogger("headrace").setLevel(level.upper())
