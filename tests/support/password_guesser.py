"""One wrong password, on a connection of its own: what a guesser does, as fast as it can."""

from __future__ import annotations

import asyncio
import base64

from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import method_frame


async def guess_amqp(port: int, source: str, user: str, number: int) -> str:
    """ "refused", or "hung up" when nobody listens to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        response = f"\0{user}\0guess-{number}".encode()
        wishes = {"capabilities": {"authentication_failure_close": True}}
        start = m.ConnectionStartOk(wishes, "PLAIN", response, "en_US")
        writer.write(b"AMQP\0\0\x09\x01" + method_frame(0, start))
        said = b""
        while more := await reader.read(4096):
            said += more
            if b"ACCESS_REFUSED" in said:
                return "refused"
        return "hung up"
    finally:
        writer.close()


async def guess_http(port: int, source: str, user: str, number: int) -> str:
    """The status of the answer, or "hung up"."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        token = base64.b64encode(f"{user}:guess-{number}".encode()).decode()
        head = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {token}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode())
        said = await reader.read(-1)
        return said[9:12].decode() if said else "hung up"
    finally:
        writer.close()
