"""`headrace://user:password@host:port/vhost`, or `headraces://` over TLS, as settings."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from headrace.client.settings import Settings

_PORTS = {"headrace": 9090, "headraces": 9091}


def settings_of(url: str) -> Settings:
    """Everything but the scheme may be missing; ValueError without repeating a password."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("a URL of a broker begins with headrace:// or headraces://")
    if parts.query or parts.fragment or "/" in parts.path.removeprefix("/"):
        raise ValueError("only a vhost may follow the port; write /, ? and # as %2F, %3F and %23")
    return Settings(
        host=parts.hostname or "127.0.0.1",
        port=_PORTS[parts.scheme] if parts.port is None else parts.port,
        user=unquote(parts.username) if parts.username else "guest",
        password="guest" if parts.password is None else unquote(parts.password),
        vhost=unquote(parts.path.removeprefix("/")) or "/",
        tls=parts.scheme == "headraces",
    )
