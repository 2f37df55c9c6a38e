"""The smallest client there can be: one socket and the codec, one request at a time."""

from __future__ import annotations

import socket
import ssl
from itertools import count
from typing import Protocol

from headrace.wire.remoting.command import ONEWAY, Command, Serialization
from headrace.wire.remoting.frames import Reader, command_bytes
from headrace.wire.remoting.headers.fields import Header
from headrace.wire.remoting.signature import signed


class Site(Protocol):
    """A RocketMQ server, whoever made it."""

    broker_name: str

    @property
    def name_address(self) -> str: ...

    @property
    def broker_address(self) -> str: ...


class Link:
    """A connection to a name server or a broker."""

    def __init__(
        self,
        address: str,
        serialization: Serialization = Serialization.JSON,
        version: int = 401,
        tls: ssl.SSLContext | None = None,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._reader = Reader()
        self._opaques = count(1)
        self._serialization = serialization
        self._version = version
        self._credentials = credentials
        self.requests: list[Command] = []  # what the server asked of us meanwhile

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, header: Header, body: bytes = b"") -> Command:
        """The answer to a typed request."""
        return self.call(header.CODE, header.ext(), body)

    def call(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """The answer to any request."""
        return self.finish(self._send(code, ext or {}, body, 0))

    def finish(self, opaque: int) -> Command:
        """The answer to a request that was sent before."""
        while True:
            received = self._receive()
            self.requests += [one for one in received if not one.is_response]
            for one in received:
                if one.is_response and one.opaque == opaque:
                    return one

    def tell(self, header: Header, body: bytes = b"") -> None:
        """A request that wants no answer."""
        self._send(header.CODE, header.ext(), body, ONEWAY)

    def begin(self, header: Header) -> int:
        """Send a request; its number, for finish()."""
        return self._send(header.CODE, header.ext(), b"", 0)

    def wait_for_request(self, code: int) -> Command:
        """A request of the server with this code, now or before."""
        while True:
            for command in self.requests:
                if command.code == code:
                    return command
            self.requests += self._receive()

    def _send(self, code: int, ext: dict[str, str], body: bytes, flag: int) -> int:
        opaque = next(self._opaques)
        if self._credentials is not None:
            ext = signed(ext, body, *self._credentials)
        request = Command(
            code,
            ext,
            body,
            opaque=opaque,
            flag=flag,
            version=self._version,
            serialization=self._serialization,
        )
        self._socket.sendall(command_bytes(request))
        return opaque

    def _receive(self) -> list[Command]:
        data = self._socket.recv(1 << 16)
        assert data, "the server closed the connection"
        found = self._reader.feed(data)
        assert self._reader.fault is None, self._reader.fault
        return found
