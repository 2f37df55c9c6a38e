"""A TCP proxy before a database that loses the answer of each COMMIT when it is told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from support.tcp_proxy import TcpProxy

_COMMIT = b"\x03COMMIT"
_CHUNK = 1 << 16


class AnswerThief(TcpProxy):
    """The server does what it is asked; the client only sees its connection end."""

    is_stealing = False
    stolen = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        both = {writer, far_writer}
        self._links |= both
        is_committing = False

        async def ask() -> None:
            nonlocal is_committing
            while chunk := await reader.read(_CHUNK):
                is_committing = chunk.endswith(_COMMIT)
                far_writer.write(chunk)
                await far_writer.drain()
            far_writer.close()

        async def answer() -> None:
            while chunk := await far_reader.read(_CHUNK):
                if is_committing and self.is_stealing:
                    self.stolen += 1
                    break
                writer.write(chunk)
                await writer.drain()
            writer.transport.abort()

        try:
            with suppress(OSError):
                await asyncio.gather(ask(), answer())
        finally:
            self._links -= both
            for side in both:
                side.transport.abort()
