"""`mysql://user:password@host:port,host/database?option=value`: where a database is, how to use
it.

The password is never shown: not in repr(), not in errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from headrace.errors import ConfigError
from headrace.urls import Host, format_hosts, split_hosts

_NUMBERS: Final = {
    "writers": (1, 64),
    "readers": (1, 256),
    "connect_timeout": (1, 3600),
    "timeout": (1, 3600),
    "grace_ms": (0, 60_000),
}
_DRIVERS: Final = ("auto", "pymysql", "mysqlclient")
_HOSTS: Final = {"first": False, "any": True}
_PORT: Final = 3306
_SWITCH: Final = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class MySqlSettings:
    """A database and how to use it."""

    hosts: tuple[Host, ...] = (("127.0.0.1", _PORT),)
    user: str = "root"
    password: str = field(default="", repr=False)
    database: str = ""
    unix_socket: str | None = None
    ssl_ca: str | None = None
    driver: str = "auto"
    writers: int = 4
    """Connections for appends."""
    readers: int = 8
    """Connections for everything else."""
    connect_timeout: int = 10
    timeout: int = 30
    """Seconds a statement may take before the connection counts as lost."""
    grace_ms: int = 50
    """How long a missing id is given to appear before it is fenced."""
    housekeeping: bool = True
    """Whether this process takes part in retention and heartbeats."""
    spread: bool = False
    """Whether processes begin with different hosts; otherwise with the first that will do."""

    @property
    def place(self) -> str:
        """What errors call the database."""
        return f"{self.unix_socket or format_hosts(self.hosts)}/{self.database}"


def parse_url(url: str) -> MySqlSettings:
    """The settings of a URL; ConfigError when it is none. Its text is never repeated."""
    try:
        parts, hosts = split_hosts(url, _PORT)
    except ValueError:
        raise ConfigError("invalid host or port in the mysql:// URL") from None
    database = unquote(parts.path.lstrip("/"))
    if parts.scheme != "mysql" or not database or "/" in database:
        raise ConfigError("a database is named as mysql://user:password@host:port/database")
    return MySqlSettings(
        hosts=hosts,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=database,
        **_options(parts.query),  # type: ignore[arg-type]  # checked one by one there
    )


def _options(query: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in _NUMBERS:
            found[name] = _number(name, text)
        elif name == "driver" and text in _DRIVERS:
            found[name] = text
        elif name == "housekeeping" and text in _SWITCH:
            found[name] = _SWITCH[text]
        elif name == "hosts" and text in _HOSTS:
            found["spread"] = _HOSTS[text]
        elif name in ("unix_socket", "ssl_ca") and text:
            found[name] = text
        else:
            known = ", ".join(
                (*_NUMBERS, "driver", "hosts", "housekeeping", "unix_socket", "ssl_ca")
            )
            raise ConfigError(f"the mysql:// URL has an option {name!r} with a value that cannot "
                              f"be used; known: {known}")  # fmt: skip
    return found


def _number(name: str, text: str) -> int:
    low, high = _NUMBERS[name]
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ConfigError(f"option {name!r} of the mysql:// URL must be from {low} to {high}")
    return int(text)
