"""Claims of groups: leases, takeovers, retries, positions."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pymysql
import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql import message_rows as reading
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, StoredMessage, TopicSpec
from headrace.testing import wait_for

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]
ME = ConsumerSpec("me", "g")


def fill(engine: MySqlEngine, count: int, priority: Priority = Priority.MIDDLE) -> None:
    engine.append("t", [Entry(b"%d" % number, priority) for number in range(count)])


def bodies(messages: tuple[StoredMessage, ...]) -> list[bytes]:
    return [one.body for one in messages]


def expire(sql: Cursor) -> None:
    sql.execute("UPDATE msg_l_t SET lease_until_ms=1")


def test_a_claim_is_plain_data(engine: MySqlEngine) -> None:
    fill(engine, 3)
    for reader in (ME, ConsumerSpec("me")):
        taken = engine.read("t", reader, 3)
        engine.commit("t", reader, msgpack.unpackb(msgpack.packb(taken.claim)))
    assert engine.lag("t", ME)[1].messages == 0


def test_an_expired_claim_goes_to_another_member(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 4)
    old = engine.read("t", ME, 4)
    assert engine.read("t", ConsumerSpec("other", "g"), 4).messages == ()
    expire(sql)
    new = engine.read("t", ConsumerSpec("other", "g"), 4)
    assert bodies(new.messages) == bodies(old.messages)
    assert {one.attempts for one in new.messages} == {2}
    for call in (engine.commit, engine.renew):
        with pytest.raises(ClaimLost):
            call("t", ME, old.claim)
    engine.commit("t", ConsumerSpec("other", "g"), new.claim)


def test_an_expired_claim_of_a_lower_lane_waits_for_its_turn_or_its_share(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 4, Priority.LOW)
    engine.read("t", ME, 4)
    expire(sql)
    fill(engine, 100, Priority.HIGH)
    strict = engine.read("t", ConsumerSpec("other", "g"), 20)
    assert {one.priority for one in strict.messages} == {Priority.HIGH}
    fair = engine.read("t", ConsumerSpec("third", "g", min_share=10), 20)
    priorities = [one.priority for one in fair.messages]
    assert priorities == [Priority.HIGH] * 18 + [Priority.LOW] * 2
    assert [one.attempts for one in fair.messages][-2:] == [2, 2]


def test_an_expired_claim_is_refused_even_if_it_is_free(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 2)
    taken = engine.read("t", ME, 2)
    expire(sql)
    with pytest.raises(ClaimLost, match="lease was over"):
        engine.commit("t", ME, taken.claim)
    with pytest.raises(ClaimLost, match="lease was over"):
        engine.commit_and_read("t", ME, taken.claim, 2)
    with pytest.raises(ClaimLost, match="lease was over"):
        engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 1)], 0)
    assert bodies(engine.read("t", ME, 2).messages) == [b"0", b"1"]


def test_a_renewal_restores_an_expired_claim_that_is_still_free(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 2)
    taken = engine.read("t", ME, 2)
    expire(sql)
    engine.renew("t", ME, taken.claim)
    engine.commit("t", ME, taken.claim)
    assert engine.read("t", ME, 2).messages == ()


def test_a_renewed_claim_is_not_taken(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 2)
    taken = engine.read("t", ME, 2)
    expire(sql)
    engine.renew("t", ME, taken.claim)
    assert engine.read("t", ConsumerSpec("other", "g"), 2).messages == ()


def test_a_smaller_batch_takes_over_a_part(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 10)
    engine.read("t", ME, 10)
    expire(sql)
    taken = [engine.read("t", ConsumerSpec(f"c{number}", "g"), 4) for number in range(3)]
    assert [len(one.messages) for one in taken] == [4, 4, 2]
    assert sorted(body for one in taken for body in bodies(one.messages)) == [
        b"%d" % number for number in range(10)
    ]


def test_a_new_high_message_is_in_the_next_batch(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 50, Priority.LOW)
    engine.read("t", ME, 20)
    expire(sql)  # a large range of low ones waits to be taken over
    engine.append("t", [Entry(b"urgent", Priority.HIGH)])
    for reader in (ME, ConsumerSpec("me")):
        taken = engine.read("t", reader, 5)
        assert bodies(taken.messages)[0] == b"urgent" and len(taken.messages) == 5


def test_with_a_backlog_every_batch_is_filled_by_priority(engine: MySqlEngine) -> None:
    for priority in BY_URGENCY:
        fill(engine, 10, priority)
    priorities = []
    for _ in range(5):
        taken = engine.read("t", ME, 6)
        assert len(taken.messages) == 6
        priorities += [one.priority for one in taken.messages]
        engine.commit("t", ME, taken.claim)
    assert priorities == [priority for priority in BY_URGENCY for _ in range(10)]


def test_commit_and_read_is_one_step(engine: MySqlEngine) -> None:
    fill(engine, 4)
    first = engine.read("t", ME, 2)
    second = engine.commit_and_read("t", ME, first.claim, 2)
    assert bodies(second.messages) == [b"2", b"3"]
    with pytest.raises(ClaimLost):
        engine.commit_and_read("t", ME, first.claim, 2)
    assert engine.lag("t", ME)[1].claimed == 2


# -- retries -------------------------------------------------------------------------------------


def test_a_delayed_message_is_not_read_before_its_time(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 1)
    taken = engine.read("t", ME, 1)
    engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 1)], 60_000, "later")
    engine.commit("t", ME, taken.claim)
    assert engine.read("t", ME, 1).messages == ()
    [_, lag, _] = engine.lag("t", ME)
    assert (lag.messages, lag.retrying, lag.position) == (1, 1, 0)
    sql.execute("UPDATE msg_r_t SET due_ms=1")
    assert engine.read("t", ME, 1).messages[0].attempts == 2


def test_a_nacked_message_is_not_delivered_twice_after_its_claim_expires(
    engine: MySqlEngine, sql: Cursor
) -> None:
    """The claim expires after the nack and before the commit."""
    fill(engine, 3)
    taken = engine.read("t", ME, 3)
    engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 2)], 0)
    engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 2)], 0)  # twice does no harm
    again = engine.read("t", ME, 1)
    assert [one.id for one in again.messages] == [2]
    engine.commit("t", ME, again.claim)
    expire(sql)
    other = ConsumerSpec("other", "g")
    rest = engine.read("t", other, 10)
    assert [one.id for one in rest.messages] == [1, 3]
    engine.commit("t", other, rest.claim)
    assert engine.lag("t", ME)[1].messages == 0


def test_a_batch_may_be_committed_after_its_nacked_message_was_done_elsewhere(
    engine: MySqlEngine,
) -> None:
    fill(engine, 2)
    taken = engine.read("t", ME, 2)
    engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 1)], 0)
    other = ConsumerSpec("other", "g")
    again = engine.read("t", other, 2)
    engine.commit("t", other, again.claim)
    engine.commit("t", ME, taken.claim)
    assert engine.lag("t", ME)[1].messages == 0


def test_a_range_handed_out_too_often_is_dead(engine: MySqlEngine, sql: Cursor) -> None:
    reader = ConsumerSpec("c", "g", max_attempts=2)
    fill(engine, 3)
    for _ in range(2):
        assert len(engine.read("t", reader, 3).messages) == 3
        expire(sql)
    assert engine.read("t", reader, 3).messages == ()
    dead = engine.dead("t", "g")
    assert [(one.id, reason) for one, reason in dead] == [
        (number, "handed out too often without an answer") for number in (1, 2, 3)
    ]
    assert engine.dead("t", "g", limit=1) == dead[:1]


# -- positions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, "g"])
def test_seek_voids_claims_and_reads_again(engine: MySqlEngine, group: str | None) -> None:
    fill(engine, 5)
    reader = ConsumerSpec("c", group)
    engine.commit("t", reader, engine.read("t", reader, 3).claim)
    out = engine.read("t", reader, 2)
    engine.seek("t", reader, positions={Priority.MIDDLE: 1})
    with pytest.raises(ClaimLost):
        engine.commit("t", reader, out.claim)
    assert bodies(engine.read("t", reader, 10).messages) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("group", [None, "g"])
def test_seek_by_time(engine: MySqlEngine, sql: Cursor, group: str | None) -> None:
    fill(engine, 10)
    sql.execute("UPDATE msg_p_t_middle SET created_at=FROM_UNIXTIME(1000+id)")
    reader = ConsumerSpec("c", group)
    for time_ms, wanted in ((0, 10), (1_001_000, 10), (1_004_500, 6), (1_010_000, 1), (2**40, 0)):
        engine.seek("t", reader, time_ms=time_ms)
        assert len(engine.read("t", reader, 100).messages) == wanted


def test_seek_of_one_lane_hands_the_others_out_again(engine: MySqlEngine) -> None:
    fill(engine, 2, Priority.HIGH)
    fill(engine, 2, Priority.LOW)
    engine.read("t", ME, 4)
    engine.seek("t", ME, positions={Priority.HIGH: 2})
    assert [one.priority for one in engine.read("t", ME, 4).messages] == [Priority.LOW] * 2


def test_a_new_reader_may_begin_with_what_comes_next(engine: MySqlEngine) -> None:
    fill(engine, 2)
    for reader in (ConsumerSpec("c", start="latest"), ConsumerSpec("c", "g", start="latest")):
        assert engine.read("t", reader, 10).messages == ()
    engine.append("t", [Entry(b"new")])
    for reader in (ConsumerSpec("c", start="latest"), ConsumerSpec("c", "g", start="latest")):
        assert bodies(engine.read("t", reader, 10).messages) == [b"new"]


def test_lag_does_not_make_a_reader_known(engine: MySqlEngine) -> None:
    fill(engine, 2)
    assert engine.lag("t", ConsumerSpec("c", "new"))[1].messages == 2
    assert engine.lag("t", ConsumerSpec("c", start="latest"))[1].messages == 0
    assert engine.groups("t") == []


def test_groups_and_their_members(engine: MySqlEngine) -> None:
    fill(engine, 4)
    engine.read("t", ConsumerSpec("a", "g"), 1)
    engine.read("t", ConsumerSpec("b", "g"), 1)
    engine.read("t", ConsumerSpec("alone"), 1)
    alone, group = engine.groups("t")
    assert (alone.group, alone.token) == ("", "alone")
    assert (group.group, group.members) == ("g", ("a", "b"))
    assert group.lag[1].claimed == 2
    engine.forget_group("t", ConsumerSpec("", "g"))
    engine.forget_group("t", ConsumerSpec("alone"))
    assert engine.groups("t") == []
    assert len(engine.read("t", ME, 10).messages) == 4


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [None, "g"])
def test_a_read_holds_only_so_many_bytes(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 5000)
    engine.append("t", [Entry(bytes([number]) * 1000) for number in range(40)])
    reader = ConsumerSpec("c", group)
    got: list[StoredMessage] = []
    sizes = []
    while (taken := engine.read("t", reader, 40)).messages:
        engine.commit("t", reader, taken.claim)
        got += taken.messages
        sizes.append(len(taken.messages))
    assert [one.id for one in got] == list(range(1, 41))
    assert {one.attempts for one in got} == {1}
    assert max(sizes[1:]) <= 6


def test_claimed_ranges_that_were_not_read_are_released(
    engine: MySqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 1500)
    for priority in BY_URGENCY:
        engine.append("t", [Entry(bytes(1000), priority) for _ in range(3)])
    for _ in range(9):
        taken = engine.read("t", ME, 9)
        if not taken.messages:
            break
        engine.commit("t", ME, taken.claim)
    assert [one.messages for one in engine.lag("t", ME)] == [0, 0, 0]


def test_rows_of_claims_are_used_again(engine: MySqlEngine, sql: Cursor) -> None:
    """Deleted ones would slow down every read while an old transaction is open."""
    for _ in range(20):
        fill(engine, 3)
        engine.commit("t", ME, engine.read("t", ME, 3).claim)
    sql.execute("SELECT COUNT(*) FROM msg_l_t")
    assert sql.fetchone() == (1,)


def test_a_recreated_topic_knows_no_old_claims(start_engine: StartEngine) -> None:
    engine, other = start_engine(), start_engine()
    first = engine.create(TopicSpec("t"))
    fill(engine, 2)
    old: ReadResult = other.read("t", ME, 2)
    engine.delete("t")
    second = engine.create(TopicSpec("t"))
    assert first.uuid != second.uuid
    fill(engine, 2)
    wait_for(lambda: other.read("t", ME, 2).messages)
    with pytest.raises(ClaimLost):
        other.commit("t", ME, old.claim)


def asked(sql: Cursor, what: str) -> int:
    sql.execute(f"SHOW GLOBAL STATUS LIKE '{what}'")
    return sum(int(number) for _, number in sql.fetchall())


def test_thousands_are_nacked_in_a_few_statements(engine: MySqlEngine, sql: Cursor) -> None:
    """The rows of the claim are locked meanwhile."""
    fill(engine, 3000)
    taken = engine.read("t", ME, 3000)
    before = asked(sql, "Questions")
    for half in (taken.messages[::2], taken.messages[1::2]):
        engine.nack("t", ME, taken.claim, [(one.priority, one.id) for one in half], 0)
    assert asked(sql, "Questions") - before < 50

    engine.commit("t", ME, taken.claim)
    assert len(engine.read("t", ME, 3000).messages) == 3000


def test_lag_counts_what_is_claimed_of_a_range_that_was_taken_over_in_part(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 10)
    taken = engine.read("t", ME, 10)
    engine.nack("t", ME, taken.claim, [(Priority.MIDDLE, 9), (Priority.MIDDLE, 10)], 3_600_000)
    expire(sql)
    engine.read("t", ConsumerSpec("you", "g"), 4)

    [_, middle, _] = engine.lag("t", ME)
    assert (middle.messages, middle.claimed, middle.retrying) == (10, 8, 2)


def test_many_groups_are_listed_with_few_statements(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, 100)
    for number in range(30):
        engine.read("t", ConsumerSpec("me", f"g{number}"), 1 + number % 3)
    before = asked(sql, "Com_select")
    found = engine.groups("t")
    assert asked(sql, "Com_select") - before < 30

    assert [one.lag[1].messages for one in found] == [100] * 30
    assert {one.group: one.lag[1].claimed for one in found}["g2"] == 3
    assert all(one.lag == tuple(engine.lag("t", ConsumerSpec("", one.group))) for one in found)


def test_rows_of_claims_that_thousands_of_retries_needed_are_removed(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 2400)
    taken = engine.read("t", ME, 2400)
    every_other = [(one.priority, one.id) for one in taken.messages[::2]]
    engine.nack("t", ME, taken.claim, every_other, 0)
    engine.commit("t", ME, taken.claim)
    again = engine.read("t", ME, 2400)
    engine.housekeeper.round()
    engine.commit("t", ME, again.claim)
    engine.housekeeper.round()
    sql.execute("SELECT COUNT(*) FROM msg_l_t")
    assert sql.fetchall() == ((1200,),)  # just now they were in use

    sql.execute("UPDATE msg_l_t SET lease_until_ms=lease_until_ms-120000")
    engine.housekeeper.round()
    sql.execute("SELECT COUNT(*) FROM msg_l_t")
    assert sql.fetchall() == ((200,),)
    fill(engine, 3)
    assert len(engine.read("t", ME, 10).messages) == 3


def test_lag_counts_what_is_claimed_without_looking_at_the_whole_topic(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 20_000)
    engine.seek("t", ME, positions={Priority.MIDDLE: 19_990})
    for _ in range(2):
        engine.read("t", ME, 5)
    before = asked(sql, "Handler_read%next")
    assert engine.lag("t", ME)[1].claimed == 10
    assert engine.groups("t")[0].lag[1].claimed == 10
    assert asked(sql, "Handler_read%next") - before < 2000
