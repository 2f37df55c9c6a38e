"""Links and the hall in front of the door, without sockets."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headrace.server.listener import Gate, Link, SessionLike


class Silent:
    """A session that does nothing."""

    def receive(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def lost(self) -> None: ...


class Transport:
    def __init__(self) -> None:
        self.aborted = 0

    def get_extra_info(self, name: str) -> object:
        return ("10.0.0.1", 1) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def abort(self) -> None:
        self.aborted += 1


def link_of(loop: asyncio.AbstractEventLoop, gate: Gate, links: set[Link]) -> Link:
    return Link(loop, gate, links, lambda link: cast(SessionLike, Silent()))


def test_a_connection_that_is_gone_is_not_timed_out(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        gate, links, transport = Gate(0.001, 1), set[Link](), Transport()
        loop = asyncio.get_running_loop()
        link = link_of(loop, gate, links)
        link.connection_made(cast(asyncio.Transport, transport))
        link.connection_lost(None)
        later = loop.create_future()
        loop.call_later(0.01, later.set_result, None)  # due after the time-out would have been
        await later
        assert (transport.aborted, links) == (0, set())

    asyncio.run(work())

    assert "timed out" not in caplog.text


def test_a_place_in_the_hall_is_free_again_when_the_peer_is_gone() -> None:
    async def work() -> None:
        gate, links = Gate(10, 1), set[Link]()
        loop = asyncio.get_running_loop()
        first, second, third = Transport(), Transport(), Transport()
        link = link_of(loop, gate, links)
        link.connection_made(cast(asyncio.Transport, first))
        link_of(loop, gate, links).connection_made(cast(asyncio.Transport, second))
        link.connection_lost(None)
        last = link_of(loop, gate, links)
        last.connection_made(cast(asyncio.Transport, third))
        last.connection_lost(None)
        assert [one.aborted for one in (first, second, third)] == [0, 1, 0]

    asyncio.run(work())


def test_a_plain_connection_has_no_certificate() -> None:
    async def work() -> None:
        link = link_of(asyncio.get_running_loop(), Gate(10, 1), set())
        assert link.certificate is None
        link.connection_made(cast(asyncio.Transport, Transport()))
        assert link.certificate is None
        link.connection_lost(None)

    asyncio.run(work())


def test_a_flood_is_told_in_a_few_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr("headrace.server.listener.time.monotonic", lambda: now)
    gate = Gate(10, 1)
    for number in range(1000):
        gate.complain(f"from {number}")
    now += 60
    gate.complain("from elsewhere")

    assert [record.getMessage() for record in caplog.records] == [
        "connection from 0 refused: too many without login",
        "connection from elsewhere refused: too many without login, and 999 others since the last "
        "such line",
    ]
