"""A TCP proxy whose connections a test can cut. It never looks at the bytes it carries."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from concurrent.futures import Future

_CHUNK = 65536
_LIMIT = 10.0
# linger on, zero seconds: close() sends RST, which is what a crashed host or a firewall looks like
_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Forwards 127.0.0.1:port to an upstream address until told to cut or to refuse.

    The event loop lives in its own thread, so that a test can block in a client call
    while bytes flow. All public methods may be called from any thread.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = "127.0.0.1"
        self.port = 0
        self.accepted = 0
        self._upstream = (host, port)
        self._refusing = False
        self._links: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcpproxy")

    def start(self) -> TcpProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_LIMIT)
        return self

    def stop(self) -> None:
        """Cut everything, stop listening, and wait until the thread is gone."""
        asyncio.run_coroutine_threadsafe(self._shutdown(), self._loop).result(_LIMIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT)
        self._loop.close()

    def cut(self) -> int:
        """Reset every open connection on both sides; return how many there were."""
        count: Future[int] = Future()
        self._loop.call_soon_threadsafe(lambda: count.set_result(self._cut()))
        return count.result(_LIMIT)

    def refuse(self) -> None:
        """Reset new connections at once, as a restarting broker would; existing ones live on."""
        self._refusing = True

    def accept(self) -> None:
        """Undo refuse()."""
        self._refusing = False

    @property
    def open_connections(self) -> int:
        return len(self._links) // 2

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self._refusing:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            _reset(writer)
            return
        both = {writer, far_writer}
        self._links |= both
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            self._links -= both
            for side in both:
                side.transport.abort()

    def _cut(self) -> int:
        count = self.open_connections
        for writer in list(self._links):
            _reset(writer)
        return count

    async def _shutdown(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until either side ends, then pass the end on."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK):
            sink.write(chunk)
            await sink.drain()
    sink.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
