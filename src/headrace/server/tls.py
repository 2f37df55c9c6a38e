"""TLS for the listeners: certificates that can be renewed while the broker runs, and the name that
a client's certificate stands for.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import ConfigError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 10.0  # between two looks at the files

# Setting -> the kind of name in the certificate's subjectAltName.
_ALTERNATIVE_NAMES = {"dns": "DNS", "email": "email", "uri": "URI"}


class TlsFiles(NamedTuple):
    """Where certificate, key and the authorities of clients are, and what is asked of clients."""

    cert: Path
    key: Path
    ca: Path | None = None
    is_optional: bool = False  # a client may come without a certificate

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key)
        if self.ca is not None:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_OPTIONAL if self.is_optional else ssl.CERT_REQUIRED
            # A resumed session would not show its certificate to the authorities of today.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def stamps(self) -> list[tuple[int, int, int] | None]:
        """Time, size and inode of each file: they differ when a file was replaced."""
        return [_stamp(path) for path in (self.cert, self.key, self.ca) if path is not None]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Certificates:
    """The context that listeners are given; every handshake takes the newest certificate."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamps = files.stamps()
        try:
            self.context = files.context()
            self._newest = files.context()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot use the TLS certificate or key: {error}") from error
        # Called for clients that name no server, too. A context cannot forget an authority, so
        # it is exchanged as a whole.
        self.context.sni_callback = self._take_newest
        self._timer: asyncio.TimerHandle | None = None

    def _take_newest(
        self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> None:
        tls.context = self._newest

    def reload(self) -> bool:
        """Read the files again; when they cannot be used, the old ones stay in use."""
        stamps = self._files.stamps()
        try:
            self._newest = self._files.context()
        except (OSError, ssl.SSLError) as error:
            logger.error("the new TLS files cannot be used, the old ones stay: %s", error)
            return False
        finally:
            self._stamps = stamps
        logger.info("TLS certificate reloaded: %s", self._files.cert)
        return True

    def look(self) -> None:
        """Reload if a file has changed."""
        if self._files.stamps() != self._stamps:
            self.reload()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look now and then."""

        def again() -> None:
            self.look()
            self._timer = loop.call_later(LOOK_SECONDS, again)

        self._timer = loop.call_later(LOOK_SECONDS, again)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def certificate_name(certificate: Mapping[str, Any] | None, source: str) -> str | None:
    """The user that a verified certificate stands for; None when it names none.

    ``source`` is common_name, dns, email or uri. With several names of the kind the first counts.
    """
    if not certificate:
        return None
    kind, names = "commonName", [pair for part in certificate.get("subject", ()) for pair in part]
    if source != "common_name":
        kind, names = _ALTERNATIVE_NAMES[source], certificate.get("subjectAltName", ())
    return next((value for name, value in names if name == kind and value), None)
