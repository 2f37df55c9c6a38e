"""Where the broker of a command is, and who asks: `headrace://user:password@host:port/vhost`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.cli.support.escaping import escaped
from headrace.errors import ConfigError

URL_VARIABLE = "HEADRACE_URL"
PASSWORD_VARIABLE = "HEADRACE_PASSWORD"
SHAPE = "headrace://user:password@host:port/vhost"
_PORT = 9090


@dataclass(frozen=True, slots=True)
class Address:
    """A broker's native port, a login, a vhost: the first settings of a client, in their order."""

    host: str = "127.0.0.1"
    port: int = _PORT
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"

    @property
    def where(self) -> str:
        """For messages: never with the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{escaped(host)}:{self.port}"


def find_address(
    url: str | None, password_file: Path | None, environ: Mapping[str, str]
) -> Address:
    """From the flags and the environment; ConfigError when it cannot be understood.

    The password comes from the first of: the file, the URL, HEADRACE_PASSWORD, `guest`.
    """
    source = "--url"
    if url is None:
        url, source = environ.get(URL_VARIABLE), URL_VARIABLE
    parts = _split(url, source) if url else SplitResult("", "", "", "", "")
    if password_file is not None:
        password = _read_password(password_file)
    elif parts.password is not None:
        password = unquote(parts.password)
    else:
        password = environ.get(PASSWORD_VARIABLE, "guest")
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=parts.port if parts.port is not None else _PORT,
        user=unquote(parts.username) if parts.username else "guest",
        password=password,
        vhost=unquote(parts.path.removeprefix("/")) or "/",
    )


def _split(url: str, source: str) -> SplitResult:
    # The URL itself is not repeated: it may have a password in it.
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - looks at the port, and raises
    except ValueError:
        raise ConfigError(f"{source}: the host or port is not valid; wanted: {SHAPE}") from None
    if parts.scheme != "headrace":
        hint = "amqp:// is another protocol, on another port; " if "amqp" in parts.scheme else ""
        raise ConfigError(f"{source}: does not begin with headrace://; {hint}wanted: {SHAPE}")
    if parts.query or parts.fragment:
        raise ConfigError(f"{source}: nothing may follow the vhost (write ? and # as %3F and %23)")
    if "/" in parts.path.removeprefix("/"):
        raise ConfigError(f"{source}: a / in the name of a vhost is written %2F")
    return parts


def _read_password(file: Path) -> str:
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--password-file: cannot read {escaped(str(file))}: {reason}") from None
