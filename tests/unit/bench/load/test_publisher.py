"""Publishers stay within the backlog and the limit, and write as many messages as the case says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.bench.cases import CASES, Case
from headrace.bench.load import streams
from headrace.bench.load.streams import PublisherSocket
from headrace.bench.load.worker_group import SharedCounters
from headrace.bench.load_plan import LoadPlan
from support.fake_connection import FakeLink, FakeSocket

MakeStream = Callable[[Case], tuple[PublisherSocket, SharedCounters, FakeSocket]]


@pytest.fixture
def make_stream(monkeypatch: pytest.MonkeyPatch) -> MakeStream:
    monkeypatch.setattr(streams, "AmqpConnection", FakeLink)

    def make(case: Case) -> tuple[PublisherSocket, SharedCounters, FakeSocket]:
        sock = FakeSocket()
        monkeypatch.setattr(FakeLink, "sock", sock)
        board = SharedCounters(case.pairs, case.pairs * case.consumers)
        return PublisherSocket(("fake", 0), LoadPlan(case, "p"), 0, board), board, sock

    return make


def publish_all(stream: PublisherSocket) -> None:
    while count := stream.room():
        stream.send(count)


@pytest.mark.parametrize("name", ["auto-ack", "fanout", "one-per-write", "size-16k", "celery"])
def test_a_stream_stops_ahead_of_its_consumers_and_goes_on_when_they_follow(
    make_stream: MakeStream, name: str
) -> None:
    case = CASES[name]
    stream, board, _ = make_stream(case)

    publish_all(stream)
    ahead = board.sent[0] * case.copies
    board.received[0] = ahead

    assert case.backlog / 2 < ahead <= case.backlog
    assert stream.room() > 0


def test_a_stream_without_consumers_stops_exactly_at_its_limit(make_stream: MakeStream) -> None:
    stream, board, sock = make_stream(replace(CASES["publish"], limit=1234))

    publish_all(stream)

    size = next(LoadPlan(CASES["publish"], "p").blocks(0)).size
    assert (board.sent[0], len(b"".join(sock.writes))) == (1234, 1234 * size)


def test_one_per_write_is_one_message_in_each_write(make_stream: MakeStream) -> None:
    stream, board, sock = make_stream(CASES["one-per-write"])

    stream.send(stream.room())

    size = next(LoadPlan(CASES["one-per-write"], "p").blocks(0)).size
    assert {len(write) for write in sock.writes} == {size}
    assert len(sock.writes) == board.sent[0]


def test_writes_are_otherwise_close_to_64_kib(make_stream: MakeStream) -> None:
    stream, _, sock = make_stream(CASES["celery"])

    stream.send(stream.room())

    assert 60_000 < len(sock.writes[0]) <= 65_536
