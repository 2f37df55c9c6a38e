"""Links and the hall in front of the door, without sockets."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headrace.server.listener import (
    HandshakeLimiter,
    ServerTransport,
    SessionProtocol,
    Transports,
)


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


def link_of(
    loop: asyncio.AbstractEventLoop, limiter: HandshakeLimiter, links: Transports
) -> ServerTransport:
    return ServerTransport(loop, limiter, links, lambda link: cast(SessionProtocol, Silent()))


def test_a_connection_that_is_gone_is_not_timed_out(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        limiter, links, transport = HandshakeLimiter(0.001, 1), Transports(), Transport()
        loop = asyncio.get_running_loop()
        link = link_of(loop, limiter, links)
        link.connection_made(cast(asyncio.Transport, transport))
        link.connection_lost(None)
        later = loop.create_future()
        loop.call_later(0.01, later.set_result, None)  # due after the time-out would have been
        await later
        assert (transport.aborted, links) == (0, set())

    asyncio.run(work())

    assert "timed out" not in caplog.text


def test_of_too_many_without_login_the_oldest_is_dropped() -> None:
    """Others behind the same address get in; those whose login is being checked stay."""

    async def work() -> None:
        limiter, links = HandshakeLimiter(10, 3), Transports()
        loop = asyncio.get_running_loop()
        transports = [Transport() for _ in range(8)]

        def enter(number: int) -> ServerTransport:
            link = link_of(loop, limiter, links)
            link.connection_made(cast(asyncio.Transport, transports[number]))
            return link

        checked, second, third = (enter(number) for number in range(3))
        checked.keep_open()
        fourth = enter(3)
        assert [one.aborted for one in transports] == [0, 1, 0, 0, 0, 0, 0, 0]
        second.connection_lost(None)  # what abort() leads to
        third.authenticated()
        fifth = enter(4)
        assert sum(one.aborted for one in transports) == 1

        for link in (fourth, fifth):
            link.keep_open()
        enter(5)  # nobody can be dropped
        assert [one.aborted for one in transports] == [0, 1, 0, 0, 0, 1, 0, 0]
        for link in (checked, third, fourth, fifth):
            link.connection_lost(None)
        last = enter(6)
        last.connection_lost(None)
        assert transports[6].aborted == 0
        assert not limiter._waiting

    asyncio.run(work())


def test_a_plain_connection_has_no_certificate() -> None:
    async def work() -> None:
        link = link_of(asyncio.get_running_loop(), HandshakeLimiter(10, 1), Transports())
        assert link.certificate is None
        link.connection_made(cast(asyncio.Transport, Transport()))
        assert link.certificate is None
        link.connection_lost(None)

    asyncio.run(work())


def test_a_flood_of_events_is_logged_in_a_few_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr("headrace.server.listener.time.monotonic", lambda: now)
    limiter = HandshakeLimiter(10, 1)
    for number in range(1000):
        limiter.log_refusal(f"from {number}")
    now += 60
    limiter.log_refusal("from elsewhere")

    assert [record.getMessage() for record in caplog.records] == [
        "connection from 0 refused: too many without login",
        "connection from elsewhere refused: too many without login, and 999 others since the last "
        "such line",
    ]
