"""Frames of the fetch process: sent in parts, whole on the other side."""

from __future__ import annotations

import socket
import threading

import pytest

pytest.importorskip("pyarrow")

from headrace.bulk.fetch_process import MAX_PARTS, send_all
from headrace.wire.native.frames import HEAD
from headrace.wire.native.payloads import Op, message, message_head, unpack


def received(ours: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += ours.recv(1 << 16)
    return bytes(data)


def test_many_parts_arrive_in_order_however_few_the_socket_takes() -> None:
    ours, theirs = socket.socketpair()
    parts: list[bytes | memoryview] = [b"%d," % n * 20 for n in range(2 * MAX_PARTS + 7)]
    parts[5:5] = [b"", memoryview(bytes(3_000_000)), b""]
    wanted = b"".join(parts)
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sender = threading.Thread(target=send_all, args=(theirs, parts))
        sender.start()
        assert received(ours, len(wanted)) == wanted
        sender.join()


def test_a_head_and_the_bytes_that_follow_are_a_frame() -> None:
    fields = {"rid": 70_000, "ch": 1, "ok": True, "last": False}
    for data in (b"", b"x" * 70_000):
        made = message_head(Op.FETCH, fields, "data", len(data)) + data
        kind, length = HEAD.unpack_from(made)
        assert (kind, length) == (Op.FETCH, len(made) - HEAD.size)
        assert unpack(made[HEAD.size :]) == {**fields, "data": data}
        plain = message(Op.FETCH, {**fields, "data": data})
        assert unpack(plain[HEAD.size :]) == unpack(made[HEAD.size :])
