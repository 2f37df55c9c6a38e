"""TLS under the blocking connection: a socket that behaves as a plain non-blocking one does."""

from __future__ import annotations

import socket
import ssl
from threading import Lock

_NOT_YET = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


def wrap(
    plain: socket.socket, context: ssl.SSLContext | None, host: str
) -> socket.socket | TlsSocket:
    """The same socket, or one that has shaken hands. OSError when that fails; it is closed then."""
    if context is None:
        return plain
    try:
        return TlsSocket(context.wrap_socket(plain, server_hostname=host))
    except BaseException:
        plain.close()
        raise


class TlsSocket:
    """One thread reads while others write, which TLS itself does not allow: calls take turns.

    Nothing here waits once setblocking(False) was called. A read takes all that was decrypted,
    because a selector sees only what is still encrypted.
    """

    def __init__(self, inner: ssl.SSLSocket) -> None:
        self._inner = inner
        self._turn = Lock()

    def fileno(self) -> int:
        return self._inner.fileno()

    def setblocking(self, flag: bool) -> None:
        self._inner.setblocking(flag)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self._inner.setsockopt(level, name, value)

    def recv(self, size: int) -> bytes:
        """About ``size`` bytes at most; b"" at the end; BlockingIOError when there is nothing."""
        chunks: list[bytes] = []
        with self._turn:
            try:
                while size > 0 or self._inner.pending():
                    chunk = self._inner.recv(1 << 16)
                    if not chunk:
                        break
                    chunks.append(chunk)
                    size -= len(chunk)
            except _NOT_YET:
                if not chunks:
                    raise BlockingIOError from None
            except ssl.SSLEOFError:
                pass  # ended without a word, as a killed broker does
        return b"".join(chunks)

    def send(self, data: bytes | bytearray) -> int:
        """How many bytes were taken; BlockingIOError when none."""
        sent = 0
        with self._turn, memoryview(data) as view:
            try:
                while sent < len(view):
                    with view[sent:] as rest:
                        sent += self._inner.send(rest)
            except _NOT_YET:
                if not sent:
                    raise BlockingIOError from None
        return sent

    def detach(self) -> int:
        return self._inner.detach()

    def close(self) -> None:
        self._inner.close()
