"""A native session without a socket: permissions, answers that wait, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest

from headrace.bulk.fetch_pool import FetchPool
from headrace.config import Config
from headrace.core.broker import Broker
from headrace.model.passwords import LIGHT, PasswordHash
from headrace.server import base_session as peer
from headrace.server.listener import ServerTransport
from headrace.server.native.handlers import dispatch
from headrace.server.native.session import Session
from headrace.wire.native.payloads import Op, message

CONFIG = Config(data_dir=Path(), channel_max=10, heartbeat=0, max_message_size=1 << 16)


class Wire:
    """A transport that goes nowhere."""

    peer_host, name, is_paused = "127.0.0.1", "test", False

    def __init__(self) -> None:
        self.written = b""
        self.paused: set[str] = set()
        self.ended = False

    def write(self, data: bytes) -> None:
        self.written += data

    def take(self) -> list[dict[str, Any]]:
        data, self.written = self.written, b""
        found = []
        while data:
            length = int.from_bytes(data[4:8], "big")
            found.append(msgpack.unpackb(data[8 : 8 + length]))
            data = data[8 + length :]
        return found

    def keep_open(self) -> None: ...

    def pause_reading(self, reason: str) -> None:
        self.paused.add(reason)

    def resume_reading(self, reason: str) -> None:
        self.paused.discard(reason)

    def end_output(self, seconds: float) -> None:
        self.ended = True

    def direct_descriptor(self) -> int | None:
        return None

    def unsent(self) -> int:
        return 0

    def authenticated(self) -> None: ...
    def opened(self) -> None: ...


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    loop = asyncio.new_event_loop()
    broker = Broker(loop, directory=tmp_path, memory_limit=1 << 40, disk_free_limit=0)
    broker.users.store_user("u", PasswordHash.of("p", LIGHT), ())
    broker.users.set_permissions("u", "/", "^mine", "^mine", "^mine")
    yield broker
    broker.close()
    loop.close()


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def session(broker: Broker, wire: Wire) -> Session:
    session = Session(broker, CONFIG, cast(ServerTransport, wire), cast(FetchPool, None), dispatch)
    session.receive(
        message(Op.HELLO, {"rid": 1, "version": 1, "user": "u", "password": "p"})
        + message(Op.CHANNEL_OPEN, {"rid": 2, "ch": 1})
    )
    assert session.login is not None
    broker.loop.run_until_complete(session.login)
    broker.turn.finish()
    wire.take()
    return session


def call(session: Session, kind: int, /, **fields: object) -> dict[str, Any]:
    session.receive(message(kind, {"rid": 3, "ch": 1, **fields}))
    session.broker.turn.finish()
    return cast(Wire, session.transport).take()[-1]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Op.EXCHANGE_DECLARE, {"name": "other", "type": "fanout"}),
        (Op.EXCHANGE_DECLARE, {"name": "mine", "type": "direct"}),  # reaches every queue
        (
            Op.EXCHANGE_DECLARE,
            {"name": "mine", "type": "fanout", "arguments": {"alternate-exchange": "other"}},
        ),
        (Op.EXCHANGE_DELETE, {"name": "amq.fanout"}),
        (Op.QUEUE_DECLARE, {"name": "other"}),
        (Op.QUEUE_DECLARE, {"name": "mine2", "arguments": {"x-dead-letter-exchange": "other"}}),
        (Op.QUEUE_DELETE, {"name": "theirs"}),
        (Op.BIND, {"queue": "theirs", "source": "mine.x", "key": ""}),
        (Op.BIND, {"queue": "mine.q", "source": "amq.fanout", "key": ""}),
        (Op.UNBIND, {"queue": "mine.q", "source": "amq.fanout"}),
        (Op.PUBLISH, {"exchange": "", "key": "mine.q", "body": b""}),
        (Op.PUBLISH, {"exchange": "amq.fanout", "key": "", "body": b""}),
        (Op.CONSUME, {"queue": "theirs"}),
        (Op.GET, {"queue": "theirs"}),
        (Op.PURGE, {"queue": "theirs"}),
    ],
)
def test_what_is_not_permitted_is_refused(
    session: Session, kind: int, fields: dict[str, Any]
) -> None:
    vhost = session.open_vhost
    vhost.declare_queue("theirs")
    vhost.declare_queue("mine.q")
    vhost.declare_exchange("mine.x", "fanout")

    answer = call(session, kind, **fields)
    assert (answer["ok"], answer["code"]) == (False, "access_refused")


def test_lists_show_what_may_be_used(session: Session) -> None:
    for name in ("theirs", "mine.q"):
        session.open_vhost.declare_queue(name)

    rows = call(session, Op.LIST, kind="queues")["rows"]
    assert [row["name"] for row in rows] == ["mine.q"]


def test_an_existing_direct_exchange_may_be_declared_again(session: Session) -> None:
    session.open_vhost.declare_exchange("mine", "direct")

    assert call(session, Op.EXCHANGE_DECLARE, name="mine")["created"] is False


def test_an_alarm_stops_reading_from_publishers(session: Session, wire: Wire) -> None:
    session.open_vhost.declare_exchange("mine.x", "fanout")
    session.broker.alarms.memory = True
    session.alarm_changed()
    assert wire.paused == set()
    call(session, Op.PUBLISH, exchange="mine.x", key="", body=b"")
    assert wire.paused == {"alarm"}
    session.broker.alarms.memory = False
    session.alarm_changed()
    assert wire.paused == set()


def test_a_full_socket_stops_deliveries_not_answers(session: Session, wire: Wire) -> None:
    session.open_vhost.declare_exchange("mine.x", "fanout")
    queue = session.open_vhost.declare_queue("mine.q")
    session.open_vhost.bind("mine.x", queue, "")
    call(session, Op.CONSUME, queue="mine.q")
    session.pause_writing()
    assert call(session, Op.PUBLISH, exchange="mine.x", key="", body=b"x")["routed"] == 1
    assert queue.backlog.count == 1
    session.resume_writing()
    session.broker.turn.finish()
    assert [one["body"] for one in wire.take()] == [b"x"]


def test_an_unexpected_exception_ends_the_connection_and_is_logged(
    session: Session, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.open_vhost, "declare_queue", lambda *_, **__: 1 / 0)

    answer = call(session, Op.QUEUE_DECLARE, name="mine")
    assert (answer["rid"], answer["code"], answer["closed"]) == (3, "internal", True)
    assert wire.ended
    assert session.broker.connections == set()


def test_a_large_chunk_waits_for_the_next_turn(session: Session, wire: Wire) -> None:
    session.receive(message(Op.PING, {"rid": 1}) * 10_000)
    assert wire.paused == {"share"}
    while wire.paused:
        session.broker.turn.finish()
    assert len(wire.take()) == 10_000


def test_many_small_requests_get_one_share_of_a_turn(
    session: Session, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    for clock in ("perf_counter", "thread_time"):  # every look shows a tenth of a millisecond more
        monkeypatch.setattr(peer, clock, lambda: next(ticks) / 10_000)

    session.receive(message(Op.PING, {"rid": 1}) * 1000)
    session.broker.turn.finish()
    assert 0 < len(wire.take()) < 100
    assert wire.paused == {"share"}  # and the rest is not forgotten
    answers = 0
    while wire.paused:
        session.broker.turn.finish()
        answers += len(wire.take())
    assert answers > 900


def test_a_share_ends_beside_busy_threads(
    session: Session, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the processor for most of the time that passes."""
    ticks = count()
    monkeypatch.setattr(peer, "perf_counter", lambda: next(ticks) / 10_000)
    monkeypatch.setattr(peer, "thread_time", lambda: next(ticks) / 50_000)

    session.receive(message(Op.PING, {"rid": 1}) * 1000)
    session.broker.turn.finish()
    assert 0 < len(wire.take()) < 200
    assert wire.paused == {"share"}


def test_after_the_end_nothing_is_carried_out(session: Session, wire: Wire) -> None:
    session.force_close("enough")
    session.receive(message(Op.QUEUE_DECLARE, {"rid": 9, "ch": 1, "name": "mine"}))
    session.broker.turn.finish()

    assert [one["code"] for one in wire.take()] == ["connection_forced"]
    assert "mine" not in session.open_vhost.queues
    session.lost()
