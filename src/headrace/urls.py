"""URLs of brokers: `headrace://user:password@host:port/vhost`, `headraces://` with TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

SHAPE = "headrace://user:password@host:port/vhost"
PORTS = {"headrace": 9090, "headraces": 9091}


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """The parts of a URL, decoded; what it leaves out has its default."""

    host: str = "127.0.0.1"
    port: int = PORTS["headrace"]
    user: str = "guest"
    password: str | None = field(default=None, repr=False)
    """None: the URL has no password."""
    vhost: str = "/"
    tls: bool = False


def parse_broker_url(url: str) -> BrokerUrl:
    """ValueError says what is wrong, and never repeats the URL: it may hold a password."""
    parts = split_url(url)
    if parts.scheme not in PORTS:
        hint = "amqp:// is another protocol, on another port; " if "amqp" in parts.scheme else ""
        raise ValueError(f"must begin with headrace:// or headraces://; {hint}expected {SHAPE}")
    if parts.query or parts.fragment:
        raise ValueError("unexpected text after the vhost (write ? as %3F and # as %23)")
    if "/" in parts.path.removeprefix("/"):
        raise ValueError("write / in the name of a vhost as %2F")
    return BrokerUrl(
        host=parts.hostname or "127.0.0.1",
        port=PORTS[parts.scheme] if parts.port is None else parts.port,
        user=unquote(parts.username) if parts.username else "guest",
        password=None if parts.password is None else unquote(parts.password),
        vhost=unquote(parts.path.removeprefix("/")) or "/",
        tls=parts.scheme == "headraces",
    )


def split_url(url: str) -> SplitResult:
    """The parts of any URL with a host; ValueError when host or port is not valid."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - parsed only when it is read
    except ValueError:
        raise ValueError("invalid host or port") from None
    return parts
