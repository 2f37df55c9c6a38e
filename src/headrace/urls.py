"""URLs of brokers: `headrace://user:password@host:port/vhost`, `headraces://` with TLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

Host = tuple[str, int]
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


def split_hosts(url: str, port: int) -> tuple[SplitResult, tuple[Host, ...]]:
    """The parts of a URL, whose host is to be ignored, and its hosts: `h1:3306,h2,[::1]`."""
    scheme, _, rest = url.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    login, at, names = rest[:end].rpartition("@")
    found = []
    for name in names.split(","):
        one = urlsplit(f"//{name}")
        try:
            host = (one.hostname or "127.0.0.1", port if one.port is None else one.port)
        except ValueError:
            raise ValueError("invalid host or port") from None
        if one.netloc != name or (not name and names):
            raise ValueError("invalid host or port")
        found.append(host)
    return split_url(f"{scheme}://{login}{at}host{rest[end:]}"), tuple(found)


def format_hosts(hosts: Sequence[Host]) -> str:
    return ",".join(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name, port in hosts)


def split_url(url: str) -> SplitResult:
    """The parts of any URL with a host; ValueError when host or port is not valid."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - parsed only when it is read
    except ValueError:
        raise ValueError("invalid host or port") from None
    return parts
