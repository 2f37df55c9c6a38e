"""Unsettled deliveries: ranges, `multiple`, unknown tags, and what is forgotten when."""

from __future__ import annotations

import pytest

from headrace.errors import PreconditionFailed
from headrace.model.message import Route, Run
from headrace.model.unacked import SettledRange, Unacked

ROUTE = Route("", "q")


def run_of(count: int, start: int = 0) -> Run:
    contents = [b"%d" % number for number in range(start, start + count)]
    return Run(ROUTE, contents, range(start, start + count), sum(map(len, contents)))


def filled(*sizes: int) -> Unacked[str]:
    """Leases of these sizes, tags from 1 on, owned by "a", "b", ..."""
    unacked: Unacked[str] = Unacked()
    tag = 1
    for owner, size in zip("abcdefgh", sizes, strict=False):
        unacked.add(tag, owner, run_of(size, tag))
        tag += size
    return unacked


def tags(parts: list[SettledRange[str]]) -> list[tuple[str, list[int]]]:
    return [(part.owner, list(part.piece().offsets)) for part in parts]


def test_a_range_may_cover_several_leases() -> None:
    unacked = filled(3, 2, 4)

    parts, unknown = unacked.take(2, 7)

    assert unknown is None
    assert tags(parts) == [("a", [2, 3]), ("b", [4, 5]), ("c", [6, 7])]
    assert unacked.count == 3


@pytest.mark.parametrize("tag", [0, 10, -1, 2**63])
def test_an_unknown_tag_is_named(tag: int) -> None:
    unacked = filled(3)

    assert unacked.take(tag, tag) == ([], tag)
    assert unacked.count == 3


def test_a_range_stops_at_the_first_unknown_tag() -> None:
    unacked = filled(5)
    unacked.take(3, 3)

    parts, unknown = unacked.take(1, 5)

    assert (tags(parts), unknown) == ([("a", [1, 2])], 3)
    assert unacked.count == 2


def test_a_tag_is_settled_once() -> None:
    unacked = filled(3)
    unacked.take(2, 2)

    assert unacked.take(2, 2) == ([], 2)
    assert not unacked.knows(2)
    assert unacked.knows(3)


def test_multiple_takes_what_is_left_up_to_the_tag() -> None:
    unacked = filled(4, 4)
    unacked.take(2, 2)
    unacked.take(6, 6)

    assert tags(unacked.take_upto(7)) == [("a", [1, 3, 4]), ("b", [5, 7])]
    assert unacked.count == 1


def test_multiple_with_tag_zero_takes_everything() -> None:
    unacked = filled(2, 2)

    assert tags(unacked.take_upto(0)) == [("a", [1, 2]), ("b", [3, 4])]
    assert unacked.take_upto(0) == []


def test_multiple_with_an_unknown_tag_is_an_error() -> None:
    unacked = filled(2)

    with pytest.raises(PreconditionFailed, match="unknown delivery tag 3"):
        unacked.take_upto(3)
    assert unacked.count == 2


def test_what_a_timeout_took_back_may_be_settled_any_time_without_effect() -> None:
    unacked: Unacked[str] = Unacked()
    lease = unacked.add(1, "a", run_of(3, 1))
    unacked.take(2, 2)

    assert tags(unacked.expire(lease)) == [("a", [1, 3])]
    assert unacked.count == 0
    assert unacked.take(1, 1) == ([], None)
    assert unacked.take(1, 1) == ([], None)
    assert unacked.take_upto(3) == []
    assert unacked.take(2, 2) == ([], 2)


def test_a_lease_expires_once() -> None:
    unacked: Unacked[str] = Unacked()
    lease = unacked.add(1, "a", run_of(2, 1))
    unacked.expire(lease)

    assert unacked.expire(lease) == []


def test_a_whole_lease_is_requeued_without_copying() -> None:
    unacked: Unacked[str] = Unacked()
    run = run_of(3, 1)
    unacked.add(1, "a", run)

    (part,) = unacked.take_upto(0)

    assert part.piece() is run


def test_settled_leases_are_forgotten_behind_a_stuck_one() -> None:
    unacked: Unacked[str] = Unacked()
    unacked.add(1, "stuck", run_of(1, 1))
    for tag in range(2, 5000):
        unacked.add(tag, "busy", run_of(1, tag))
        unacked.take(tag, tag)

    assert len(unacked._leases) < 200
    assert len(unacked._leases) == len(unacked._firsts)
    assert [lease.owner for lease in unacked.leases()] == ["stuck"]


def test_nothing_is_kept_when_nothing_is_outstanding() -> None:
    unacked = filled(3, 3)
    unacked.take(4, 6)
    unacked.take(1, 3)

    assert (unacked._leases, unacked._firsts, unacked.count) == ([], [], 0)
