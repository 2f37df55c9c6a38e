"""When a standby takes a shard, and until when its owner delivers."""

from __future__ import annotations

from itertools import product

from headrace.model.shard_ownership import OwnerLease, ShardRow, StandbyDecision, StandbyWatch

TAKE, WAIT, WENT_BACK = StandbyDecision.TAKE, StandbyDecision.WAIT, StandbyDecision.WENT_BACK
ROW = ShardRow(1, 5, "a")


def watch(lease: float = 5) -> StandbyWatch:
    return StandbyWatch(lease, max_step=2)


def test_a_released_shard_is_taken_at_once() -> None:
    assert watch().look(ShardRow(1, 5, None), None, 0) is TAKE


def test_a_standby_waits_while_the_owner_commits() -> None:
    standby = watch()
    for second in range(100):
        assert standby.look(ROW._replace(seq=second), None, second) is WAIT


def test_a_standby_takes_over_when_the_row_stood_still_for_the_lease() -> None:
    standby = watch()
    found = [standby.look(ROW, None, second) for second in range(7)]
    assert found == [WAIT] * 5 + [TAKE] * 2


def test_time_without_the_database_does_not_count() -> None:
    standby = watch()
    standby.look(ROW, None, 0)
    standby.missed()
    assert standby.look(ROW, None, 100) is WAIT
    assert standby.look(ROW, None, 200) is WAIT  # 2 of the 100 s count
    assert standby.look(ROW, None, 202) is WAIT
    assert standby.look(ROW, None, 203) is TAKE


def test_an_owner_that_refuses_connections_twice_is_gone() -> None:
    standby = watch()
    assert standby.look(ROW, None, 0, is_refused=False) is WAIT
    assert standby.look(ROW, None, 1, is_refused=True) is WAIT
    assert standby.look(ROW, None, 2, is_refused=True) is TAKE


def test_an_owner_that_does_not_listen_yet_is_not_gone() -> None:
    standby = watch()
    standby.look(ROW, None, 0, is_refused=False)
    new = ShardRow(2, 6, "b")
    for second in range(1, 4):
        assert standby.look(new, 6, second, is_refused=True) is WAIT


def test_a_standby_stops_when_the_database_lost_commits() -> None:
    for later, start in [(ROW._replace(seq=4), None), (ShardRow(0, 9, "z"), None),
                         (ShardRow(1, 7, "b"), None), (ShardRow(3, 9, "c"), 5)]:  # fmt: skip
        standby = watch()
        standby.look(ROW, None, 0)
        assert standby.look(later, start, 1) is WENT_BACK


def test_a_take_over_behind_the_last_commit_is_no_loss() -> None:
    standby = watch()
    standby.look(ROW, None, 0)
    assert standby.look(ShardRow(3, 9, "c"), 6, 1) is WAIT


def test_owner_and_standby_never_deliver_at_once() -> None:
    """All ways in which commits of the owner are sent, seen and answered within some seconds."""
    lease = 3
    for sent, delay, answer, looks in product(
        range(4), range(3), range(3), product((0, 1), repeat=9)
    ):
        owner, standby = OwnerLease(lease, 0), watch(lease)
        for now in range(1, 10):
            seen = ROW if now < sent + delay else ROW._replace(seq=6)
            if now == sent + delay + answer:
                owner.committed(sent)
            if not looks[now - 1]:
                standby.missed()
            elif standby.look(seen, None, now) is TAKE:
                assert owner.is_over(now)
                break


def test_a_lease_counted_from_the_answer_would_be_too_long() -> None:
    owner, standby = OwnerLease(3, 0), watch(3)
    standby.look(ROW, None, 1)  # the commit sent at 0 is seen at 1 and answered at 4
    owner.committed(4)
    assert [standby.look(ROW, None, now) for now in (2, 3, 4)] == [WAIT, WAIT, TAKE]
    assert not owner.is_over(4)
