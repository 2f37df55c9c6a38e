"""An AMQP session without a socket: heartbeats, and how a connection ends."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from headrace.config import Config
from headrace.core.broker import Broker
from headrace.core.storage import Storage
from headrace.server.amqp.handlers import dispatch
from headrace.server.amqp.handshake import PROTOCOL_HEADER
from headrace.server.amqp.session import Session
from headrace.server.listener import ServerTransport
from headrace.wire.amqp import methods as m
from headrace.wire.amqp.method_codec import method_frame

CONFIG = Config(data_dir=Path(), channel_max=10, max_message_size=1 << 16)
BEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Wire:
    """A transport that goes nowhere, with a clock of its own."""

    peer_host, name, is_paused, certificate = "127.0.0.1", "test", False, None

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[tuple[float, bytes]] = []
        self.paused: set[str] = set()  # what it was ever paused for
        self.ended_at: float | None = None
        self.aborted_at: float | None = None
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    def write(self, data: bytes) -> None:
        self.written.append((self.now, bytes(data)))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + seconds, len(self._timers), callback))

    def advance(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            self.now, _, callback = heapq.heappop(self._timers)
            callback()
        self.now = until

    def beats(self) -> list[float]:
        return [when for when, data in self.written if data == BEAT]

    def end_output(self, seconds: float) -> None:
        self.ended_at = self.now

    def abort(self) -> None:
        self.aborted_at = self.now

    def unsent(self) -> int:
        return 0

    def keep_open(self) -> None: ...

    def pause_reading(self, reason: str) -> None:
        self.paused.add(reason)

    def resume_reading(self, reason: str) -> None: ...
    def close_after(self, seconds: float) -> None: ...
    def authenticated(self) -> None: ...
    def opened(self) -> None: ...


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    broker = Broker(loop, directory=tmp_path, memory_limit=1 << 40, disk_free_limit=0)
    broker.users.ensure_default_user("guest", "guest")
    yield broker
    broker.close()
    loop.close()


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def session(broker: Broker, wire: Wire) -> Session:
    """Opened at second 0, with heartbeats every 60 seconds."""
    session = Session(broker, CONFIG, cast(ServerTransport, wire), dispatch)
    login = m.ConnectionStartOk({}, "PLAIN", b"\x00guest\x00guest", "en_US")
    session.receive(PROTOCOL_HEADER + method_frame(0, login))
    assert session.login is not None
    broker.loop.run_until_complete(session.login)
    session.receive(
        method_frame(0, m.ConnectionTuneOk(10, 131072, 60)) + method_frame(0, m.ConnectionOpen("/"))
    )
    broker.turn.finish()
    return session


def test_the_first_heartbeat_comes_after_half_an_interval(session: Session, wire: Wire) -> None:
    wire.advance(100)

    assert wire.beats() == [30, 60, 90]


def test_a_heartbeat_follows_half_an_interval_after_any_traffic(
    session: Session, wire: Wire
) -> None:
    for second in (10, 16, 31, 46):
        wire.advance(second)
        session.receive(method_frame(0, m.ConnectionUpdateSecret(b"", "")))
        session.broker.turn.finish()
    wire.advance(46 + 30)

    assert len(wire.beats()) == 1


def test_a_peer_that_is_silent_for_two_intervals_is_gone(session: Session, wire: Wire) -> None:
    wire.advance(120)
    assert wire.aborted_at is None

    wire.advance(180)
    assert wire.aborted_at is not None


def test_the_output_ends_with_close_ok(session: Session, wire: Wire) -> None:
    session.receive(method_frame(0, m.ConnectionClose(200, "bye", 0, 0)))
    session.broker.turn.finish()

    assert wire.written[-1][1] == method_frame(0, m.ConnectionCloseOk())
    assert wire.ended_at == wire.now


def test_answers_about_messages_do_not_wait_for_declarations_of_others(
    session: Session, wire: Wire, broker: Broker
) -> None:
    """A flood of durable declarations delayed every answer to every client."""
    session.receive(method_frame(1, m.ChannelOpen()) + method_frame(1, m.QueueDeclare(queue="q")))
    broker.turn.finish()
    wire.written.clear()
    broker.storage.declared = 5  # by others, and not on disk yet

    session.receive(method_frame(1, m.BasicGet(queue="q")))
    broker.turn.finish()
    assert [data for _, data in wire.written] == [method_frame(1, m.BasicGetEmpty())]

    session.receive(method_frame(1, m.QueueDeclare(queue="q", passive=True)))
    broker.turn.finish()
    assert len(wire.written) == 1  # it speaks of a queue


def test_only_those_who_declare_wait_until_declarations_are_stored(
    session: Session, wire: Wire, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.receive(method_frame(1, m.ChannelOpen()) + method_frame(1, m.QueueDeclare(queue="q")))
    monkeypatch.setattr(Storage, "is_behind_with_changes", property(lambda storage: True))
    monkeypatch.setattr(Storage, "save", lambda storage, row: storage._note(row, 1))

    session.receive(method_frame(1, m.BasicGet(queue="q")))
    broker.turn.finish()
    assert "journal" not in wire.paused

    session.receive(method_frame(1, m.ExchangeDeclare(exchange="x", type="direct", durable=True)))
    broker.turn.finish()
    assert "journal" in wire.paused
