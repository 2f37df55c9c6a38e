"""Runs: splitting, cutting, dealing."""

from __future__ import annotations

from headrace.model.message import PublishedRun, Route, Run

ROUTE = Route("exchange", "key")


def run_of(*bodies: bytes, start: int = 0) -> Run:
    size = sum(map(len, bodies))
    offsets = range(start, start + len(bodies))
    return Run(
        ROUTE,
        list(bodies),
        offsets,
        size,
        channel_number=3,
        persistent=True,
        expires=9,
        deliveries=2,
        priority=4,
    )


def shared(run: Run) -> tuple[object, ...]:
    return run.route, run.channel_number, run.persistent, run.expires, run.deliveries, run.priority


def test_splitting_takes_from_the_head_and_keeps_sizes() -> None:
    run = run_of(b"a", b"bb", b"ccc", start=10)

    part = run.split(2)

    assert (part.contents, list(part.offsets), part.size, len(part)) == (
        [b"a", b"bb"],
        [10, 11],
        3,
        2,
    )
    assert (len(run), run.size, run.contents[run.start :]) == (1, 3, [b"ccc"])
    assert shared(part) == shared(run)


def test_splitting_goes_on_where_it_stopped() -> None:
    run = run_of(b"a", b"b", b"c", b"d")

    parts = [run.split(1).contents for _ in range(3)]

    assert parts == [[b"a"], [b"b"], [b"c"]]
    assert len(run) == 1


def test_a_piece_leaves_the_run_as_it_is() -> None:
    run = run_of(b"a", b"bb", b"ccc", b"dddd")

    piece = run.piece(slice(1, None, 2))

    assert (piece.contents, list(piece.offsets), piece.size) == ([b"bb", b"dddd"], [1, 3], 6)
    assert (len(run), run.size) == (4, 10)
    assert shared(piece) == shared(run)


def test_dealing_gives_every_hand_its_turn() -> None:
    run = run_of(*(b"%d" % number for number in range(8)))
    run.split(1)

    hands = [hand.contents for hand in run.split_round_robin(3)]

    assert hands == [[b"1", b"4", b"7"], [b"2", b"5"], [b"3", b"6"]]


def test_dealing_few_messages_leaves_hands_empty() -> None:
    assert [hand.contents for hand in run_of(b"a", b"b").split_round_robin(5)] == [[b"a"], [b"b"]]


def test_a_piece_is_measured_as_its_run_is() -> None:
    class Counted(Run):
        __slots__ = ()
        measure = staticmethod(lambda _: 1)

    run = Counted(ROUTE, [b"aa", b"bb", b"cc"], range(3), 3)

    part = run.split(2)

    assert isinstance(part, Counted)
    assert (part.size, run.size) == (2, 1)


def test_a_batch_refuses_nothing_by_itself() -> None:
    batch = PublishedRun(ROUTE, [b"a"], 1)

    assert (batch.refused, batch.ttl_ms, batch.persistent) == (None, None, False)
