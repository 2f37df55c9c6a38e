"""Counting by bytes: exact however the stream is cut, and loud when a stray frame is in it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pika.frame import Method
from pika.spec import Basic, Connection

from headrace.bench.cases import CASES
from headrace.bench.load import contents, frames, streams
from headrace.bench.load.streams import ConsumerSocket
from headrace.bench.load.worker_group import SharedCounters
from headrace.bench.load_plan import LoadPlan
from headrace.bench.target import MeasureError
from support.fake_connection import FakeLink, FakeSocket

MakeInlet = Callable[..., tuple[ConsumerSocket, SharedCounters, FakeSocket]]


@pytest.fixture
def make_inlet(monkeypatch: pytest.MonkeyPatch) -> MakeInlet:
    monkeypatch.setattr(streams, "AmqpConnection", FakeLink)

    def make(name: str, pieces: list[bytes]) -> tuple[ConsumerSocket, SharedCounters, FakeSocket]:
        sock = FakeSocket(pieces)
        monkeypatch.setattr(FakeLink, "sock", sock)
        board = SharedCounters(1, 1)
        plan = LoadPlan(CASES[name], "p")
        return ConsumerSocket(("fake", 0), plan, 0, board, bytearray(1 << 16)), board, sock

    return make


def deliveries(name: str, count: int) -> bytes:
    plan, content = LoadPlan(CASES[name], "p"), contents.plain(100, persistent=False)
    methods = (Basic.Deliver("c000", n, False, "", plan.queues[0]) for n in range(1, count + 1))
    return b"".join(Method(1, method).marshal() + content for method in methods)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(step=st.integers(1, 1000))
def test_deliveries_are_counted_however_the_stream_is_cut(make_inlet: MakeInlet, step: int) -> None:
    data = deliveries("auto-ack", 8)
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    inlet, board, sock = make_inlet("auto-ack", pieces)

    while sock.incoming:
        inlet.take()

    assert board.received[0] == 8
    assert sock.writes == []


def test_each_delivery_gets_its_own_ack_once_it_is_whole(make_inlet: MakeInlet) -> None:
    data = deliveries("manual-ack", 3)
    inlet, board, sock = make_inlet("manual-ack", [data[:-1], data[-1:]])

    inlet.take()
    before = b"".join(sock.writes)
    inlet.take()
    after = b"".join(sock.writes)

    tags = [row[4] for row in struct.iter_unpack(">BHIIQBB", after)]
    assert (len(before), tags, board.received[0]) == (2 * frames.ACK_SIZE, [1, 2, 3], 3)


def test_messages_meant_to_stay_unacknowledged_get_no_ack(make_inlet: MakeInlet) -> None:
    inlet, board, sock = make_inlet("million-unacked", [deliveries("million-unacked", 3)])

    inlet.take()

    assert (board.received[0], sock.writes) == (3, [])


def test_a_close_in_the_stream_fails_with_its_text(make_inlet: MakeInlet) -> None:
    close = Method(0, Connection.Close(320, "FORCED - bye", 0, 0)).marshal()
    data = deliveries("auto-ack", 2) + close + deliveries("auto-ack", 3)
    inlet, _, _ = make_inlet("auto-ack", [data])

    with pytest.raises(MeasureError, match="FORCED - bye"):
        inlet.take()


def test_the_end_of_the_stream_is_a_failure(make_inlet: MakeInlet) -> None:
    inlet, _, _ = make_inlet("auto-ack", [b""])

    with pytest.raises(MeasureError, match="closed"):
        inlet.take()
