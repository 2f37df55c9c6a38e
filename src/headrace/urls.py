"""URLs of brokers: `headrace://user:password@host:port/vhost`, `headraces://` with TLS.

Instead of one host there may be several, `h1:9090,h2`: they are tried in turn."""

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
    """Or several, with their ports."""
    port: int = PORTS["headrace"]
    user: str = "guest"
    password: str | None = field(default=None, repr=False)
    """None: the URL has no password."""
    vhost: str = "/"
    tls: bool = False


def parse_broker_url(url: str) -> BrokerUrl:
    """ValueError says what is wrong, and never repeats the URL: it may hold a password."""
    scheme = url.partition("://")[0]
    parts, hosts = split_hosts(url, PORTS.get(scheme.lower(), 0))
    if parts.scheme not in PORTS:
        hint = "amqp:// is another protocol, on another port; " if "amqp" in parts.scheme else ""
        raise ValueError(f"must begin with headrace:// or headraces://; {hint}expected {SHAPE}")
    if parts.query or parts.fragment:
        raise ValueError("unexpected text after the vhost (write ? as %3F and # as %23)")
    if "/" in parts.path.removeprefix("/"):
        raise ValueError("write / in the name of a vhost as %2F")
    return BrokerUrl(
        host=hosts[0][0] if len(hosts) == 1 else format_hosts(hosts),
        port=hosts[0][1],
        user=unquote(parts.username) if parts.username else "guest",
        password=None if parts.password is None else unquote(parts.password),
        vhost=unquote(parts.path.removeprefix("/")) or "/",
        tls=parts.scheme == "headraces",
    )


def split_hosts(url: str, port: int) -> tuple[SplitResult, tuple[Host, ...]]:
    """The parts of a URL, whose host is to be ignored, and its hosts."""
    scheme, _, rest = url.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    login, at, names = rest[:end].rpartition("@")
    return split_url(f"{scheme}://{login}{at}host{rest[end:]}"), parse_hosts(names, port)


def parse_hosts(text: str, port: int) -> tuple[Host, ...]:
    """The hosts in `h1:3306,h2,[::1]`; ValueError when they are not hosts."""
    found = []
    for name in text.split(","):
        one = split_url(f"//{name}")
        if one.netloc != name or (not name and text):
            raise ValueError("invalid host or port")
        found.append((one.hostname or "127.0.0.1", port if one.port is None else one.port))
    return tuple(found)


def format_hosts(hosts: Sequence[Host]) -> str:
    return ",".join(f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name, port in hosts)


def hosts_of(host: str, port: int) -> tuple[Host, ...]:
    """Of a setting `host`, which may be a list of hosts with or without ports."""
    return parse_hosts(host, port) if "," in host else ((host, port),)


def split_url(url: str) -> SplitResult:
    """The parts of any URL with a host; ValueError when host or port is not valid."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - parsed only when it is read
    except ValueError:
        raise ValueError("invalid host or port") from None
    return parts
