"""The process of the broker: log output, limit of open files, notification of systemd."""

from __future__ import annotations

import json
import logging
import os
import resource
import socket
import sys
from datetime import datetime

logger = logging.getLogger(__name__)

RESERVED_FILES = 64
MAX_FILES = 1 << 20  # where the system sets no limit
READY = "READY=1"
STOPPING = "STOPPING=1"
_NOTIFY_SOCKET = "NOTIFY_SOCKET"

# -- log output ---------------------------------------------------------------------------------

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
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        entry = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False).translate(_QUOTED_IN_JSON)


def configure_logging(level: str, form: str) -> None:
    """Send the logs of `headrace`, uvicorn and asyncio to standard error, as text or JSON lines.

    Called once, by the command line only.
    """
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


# -- open files ---------------------------------------------------------------------------------
#
# The broker stops when the commit log cannot open its next segment, so clients are refused before
# they take the last descriptors. HTTP is refused later: operators need it to find the cause.


def raise_file_limit() -> None:
    """Raise the soft limit, which exists for programs that use select(), to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_refusal(descriptor: int, *, is_http: bool = False) -> str | None:
    """The reason to refuse the connection or file with this descriptor, if there is one.

    The system assigns the lowest free number, so the number shows how many are in use.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserved = min(RESERVED_FILES, limit // 4) // (2 if is_http else 1)
    if limit == resource.RLIM_INFINITY or descriptor < limit - reserved:
        return None
    return (
        f"{limit} open files are allowed and the last {reserved} are reserved for the broker: "
        "raise `ulimit -n`, or LimitNOFILE of the service"
    )


# -- systemd ------------------------------------------------------------------------------------


def is_under_systemd() -> bool:
    """Whether systemd waits for notifications."""
    return bool(os.environ.get(_NOTIFY_SOCKET))


def notify_systemd(state: str) -> None:
    """Send one state; does nothing without systemd, and only logs a failure."""
    path = os.environ.get(_NOTIFY_SOCKET)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as opened:
            opened.connect(address)
            opened.sendall(state.encode())
    except OSError as error:
        logger.warning("cannot notify systemd of %s: %s", state, error)
