"""A TCP proxy before a database that loses answers when it is told to: that of each COMMIT, or
others that are chosen."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from support.tcp_proxy import TcpProxy

COMMIT = b"\x03COMMIT"
_CHUNK = 1 << 16


class AnswerThief(TcpProxy):
    """The server does what it is asked; the client only sees its connection end."""

    is_stealing = False
    stolen = 0

    def is_wanted(self, statement: bytes) -> bool:
        return statement.endswith(COMMIT)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        both = {writer, far_writer}
        self._links |= both
        is_chosen = False

        async def ask() -> None:
            nonlocal is_chosen
            while chunk := await reader.read(_CHUNK):
                is_chosen = self.is_stealing and self.is_wanted(chunk)
                far_writer.write(chunk)
                await far_writer.drain()
            far_writer.close()

        async def answer() -> None:
            while chunk := await far_reader.read(_CHUNK):
                if is_chosen:
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
