"""The sixteen defects of the original table design, each as what must not happen any more."""

from __future__ import annotations

import threading

import pymysql
import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql.catalog import CatalogTopic
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.stable_ids import Bounds, StableIds
from headrace.store.sql.connection import DbConnection
from headrace.store.topics.types import ConsumerSpec, Entry, ReadResult, TopicSpec
from headrace.testing import wait_for

Cursor = pymysql.cursors.Cursor


def bodies(taken: ReadResult) -> list[bytes]:
    return [one.body for one in taken.messages]


def fill(engine: MySqlEngine, *numbers: int, priority: Priority = Priority.MIDDLE) -> None:
    engine.append("t", [Entry(b"%d" % number, priority) for number in numbers])


def test_01_the_first_message_of_every_lane_is_delivered(engine: MySqlEngine) -> None:
    for priority in BY_URGENCY:
        engine.append("t", [Entry(priority.label.encode(), priority)])
    for reader in (ConsumerSpec("c"), ConsumerSpec("c", "g")):
        assert bodies(engine.read("t", reader, 10)) == [b"high", b"middle", b"low"]


def test_02_a_read_gives_as_many_messages_of_one_lane_as_fit(engine: MySqlEngine) -> None:
    fill(engine, *range(5))
    assert len(engine.read("t", ConsumerSpec("c"), 5).messages) == 5


@pytest.mark.parametrize("group", [None, "g"])
def test_03_a_batch_has_exactly_as_many_messages_as_asked_for(
    engine: MySqlEngine, group: str | None
) -> None:
    fill(engine, *range(10))
    assert len(engine.read("t", ConsumerSpec("c", group), 4).messages) == 4


@pytest.mark.parametrize("group", [None, "g"])
def test_04_a_gap_left_by_a_rollback_does_not_stop_consumption(
    engine: MySqlEngine, sql: Cursor, group: str | None
) -> None:
    fill(engine, 1)
    sql.execute("BEGIN")
    sql.execute("INSERT INTO msg_p_t_middle (body,token) VALUES ('gone','p'),('gone','p')")
    sql.execute("ROLLBACK")
    fill(engine, 2, 3)
    reader = ConsumerSpec("c", group)
    first = engine.read("t", reader, 3)
    engine.commit("t", reader, first.claim)
    got = list(first.messages)

    def all_there() -> bool:
        taken = engine.read("t", reader, 3)
        engine.commit("t", reader, taken.claim)
        got.extend(taken.messages)
        return len(got) == 3

    wait_for(all_there)
    assert [one.body for one in got] == [b"1", b"2", b"3"]
    assert [one.id for one in got] == [1, 4, 5]


def see_that_nothing_is_skipped(
    engine: MySqlEngine, sql: Cursor, group: str | None, patience: float
) -> None:
    """A transaction takes an id and is committed after a later one was read."""
    sql.execute("BEGIN")
    sql.execute("INSERT INTO msg_p_t_middle (body,token) VALUES ('first','p')")
    fill(engine, 2)  # its id is higher, and it can be seen at once
    reader = ConsumerSpec("c", group)
    got: list[bytes] = []

    def both_there() -> bool:
        taken = engine.read("t", reader, 10)
        engine.commit("t", reader, taken.claim)
        got.extend(bodies(taken))
        return len(got) >= 2

    assert not both_there()
    sql.execute("COMMIT")
    wait_for(both_there, timeout=patience)
    assert got == [b"first", b"2"]


@pytest.mark.parametrize("group", [None, "g"])
def test_05_a_message_committed_after_a_later_one_is_not_skipped(
    engine: MySqlEngine, sql: Cursor, group: str | None
) -> None:
    see_that_nothing_is_skipped(engine, sql, group, patience=10)


@pytest.mark.parametrize("group", [None, "g"])
def test_05_fails_for_readers_that_take_every_id_above_their_offset(
    engine: MySqlEngine, sql: Cursor, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    """The mutation: without the stable id the check above does not hold, so it checks that."""

    def everything_visible(
        self: StableIds, session: DbConnection, topic: CatalogTopic
    ) -> dict[Priority, Bounds]:
        found = {}
        for priority in BY_URGENCY:
            [(end,)] = session.rows(f"SELECT COALESCE(MAX(id),0) FROM msg_p_t_{priority.label}")
            found[priority] = Bounds(end, 1)
        return found

    monkeypatch.setattr(StableIds, "advance", everything_visible)
    with pytest.raises(AssertionError, match="both_there: still False"):
        see_that_nothing_is_skipped(engine, sql, group, patience=0.3)


def test_06_members_of_a_group_share_the_messages(engine: MySqlEngine) -> None:
    fill(engine, *range(8))
    taken = [engine.read("t", ConsumerSpec(f"c{number}", "g"), 2) for number in range(4)]
    got = [body for one in taken for body in bodies(one)]
    assert sorted(got) == [b"%d" % number for number in range(8)]


def test_07_a_member_that_comes_back_goes_on_where_the_group_is(engine: MySqlEngine) -> None:
    fill(engine, *range(4))
    for token, wanted in (("a", b"0"), ("b", b"1"), ("b", b"2"), ("a", b"3")):
        taken = engine.read("t", ConsumerSpec(token, "g"), 1)
        engine.commit("t", ConsumerSpec(token, "g"), taken.claim)
        assert bodies(taken) == [wanted]


def test_08_a_new_member_jumps_over_nothing(engine: MySqlEngine) -> None:
    fill(engine, *range(4))
    slow, fast = ConsumerSpec("slow", "g", lease_ms=1), ConsumerSpec("fast", "g")
    engine.read("t", slow, 2)  # dies with its messages
    taken = engine.read("t", fast, 2)
    engine.commit("t", fast, taken.claim)
    new = ConsumerSpec("new", "g")
    rest = wait_for(lambda: engine.read("t", new, 10).messages)
    assert sorted(bodies(taken) + [one.body for one in rest]) == [b"0", b"1", b"2", b"3"]


def test_09_positions_of_lanes_and_groups_do_not_overwrite_each_other(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, *range(3), priority=Priority.HIGH)
    fill(engine, *range(5), priority=Priority.LOW)
    alone, member = ConsumerSpec("c"), ConsumerSpec("c", "g")
    taken = engine.read("t", alone, 4)
    engine.commit("t", alone, taken.claim)
    other = engine.read("t", member, 2)
    engine.commit("t", member, other.claim)
    assert [one.position for one in engine.lag("t", alone)] == [3, 0, 1]
    assert [one.position for one in engine.lag("t", member)] == [2, 0, 0]
    sql.execute("SELECT COUNT(*) FROM msg_c_t")
    assert sql.fetchone() == (6,)


def test_10_a_late_commit_lowers_nothing(engine: MySqlEngine) -> None:
    fill(engine, *range(6))
    alone = ConsumerSpec("c")
    early = engine.read("t", alone, 2)
    late = engine.read("t", alone, 6)
    engine.commit("t", alone, late.claim)
    engine.commit("t", alone, early.claim)
    assert engine.lag("t", alone)[1].position == 6


def test_10_a_member_too_late_is_refused(engine: MySqlEngine) -> None:
    fill(engine, 1)
    slow, fast = ConsumerSpec("slow", "g", lease_ms=1), ConsumerSpec("fast", "g")
    old = engine.read("t", slow, 1)
    new = wait_for(lambda: (taken := engine.read("t", fast, 1)).messages and taken)
    with pytest.raises(ClaimLost, match="lease was over"):
        engine.commit("t", slow, old.claim)
    engine.commit("t", fast, new.claim)
    assert engine.lag("t", fast)[1].messages == 0


def test_11_and_12_the_tables_are_made_and_middle_can_be_stored(
    engine: MySqlEngine, sql: Cursor
) -> None:
    fill(engine, 1)
    reader = ConsumerSpec("c")
    engine.commit("t", reader, engine.read("t", reader, 1).claim)
    sql.execute("SELECT `offset` FROM msg_c_t WHERE priority='middle'")
    assert sql.fetchone() == (1,)


def test_13_ids_beyond_two_thousand_million(engine: MySqlEngine) -> None:
    engine.create(TopicSpec("big", options={"first_id": 2**31 - 1}))
    ids = engine.append("big", [Entry(b"a"), Entry(b"b")])
    assert ids == [2**31 - 1, 2**31]
    reader = ConsumerSpec("c", "g")
    taken = engine.read("big", reader, 2)
    engine.commit("big", reader, taken.claim)
    assert engine.lag("big", reader)[1].position == 2**31


@pytest.mark.parametrize("address", ["192.168.0.1", "255.255.255.255", "2001:db8::1", None])
def test_13_addresses_of_any_kind(engine: MySqlEngine, address: str | None) -> None:
    engine.append("t", [Entry(b"x", source_ip=address)])
    found = engine.read("t", ConsumerSpec("c"), 1).messages[0].source_ip
    assert found == (address or "127.0.0.1")  # without one, that of the connection


def test_13_a_body_of_70000_bytes(engine: MySqlEngine) -> None:
    body = bytes(range(256)) * 274
    engine.append("t", [Entry(body[:70_000])])
    assert engine.read("t", ConsumerSpec("c"), 1).messages[0].body == body[:70_000]


def test_14_tokens_that_differ_in_case_are_two_consumers(engine: MySqlEngine) -> None:
    fill(engine, 1)
    engine.commit("t", ConsumerSpec("a"), engine.read("t", ConsumerSpec("a"), 1).claim)
    assert bodies(engine.read("t", ConsumerSpec("A"), 1)) == [b"1"]
    engine.commit("t", ConsumerSpec("x", "g"), engine.read("t", ConsumerSpec("x", "g"), 1).claim)
    assert bodies(engine.read("t", ConsumerSpec("x", "G"), 1)) == [b"1"]


@pytest.mark.parametrize("group", [None, "g"])
def test_15_a_minimum_share_keeps_low_from_starving(engine: MySqlEngine, group: str | None) -> None:
    fill(engine, *range(20), priority=Priority.HIGH)
    fill(engine, *range(20), priority=Priority.LOW)
    taken = engine.read("t", ConsumerSpec("c", group, min_share=20), 10)
    priorities = [one.priority for one in taken.messages]
    assert priorities == [Priority.HIGH] * 8 + [Priority.LOW] * 2


def test_16_a_failed_message_is_retried_and_then_dead_lettered(engine: MySqlEngine) -> None:
    fill(engine, 1, 2)
    reader = ConsumerSpec("c", "g", max_attempts=2)
    taken = engine.read("t", reader, 2)
    engine.nack("t", reader, taken.claim, [(Priority.MIDDLE, 1)], 0, "first try")
    engine.commit("t", reader, taken.claim)
    again = engine.read("t", reader, 2)
    assert [(one.body, one.attempts) for one in again.messages] == [(b"1", 2)]
    engine.nack("t", reader, again.claim, [(Priority.MIDDLE, 1)], 0, "second try")
    engine.commit("t", reader, again.claim)
    assert engine.read("t", reader, 2).messages == ()
    [(message, reason)] = engine.dead("t", "g")
    assert (message.body, message.attempts, reason) == (b"1", 2, "second try")
    assert engine.lag("t", reader)[1].dead == 1


def test_16_messages_know_when_they_were_stored(engine: MySqlEngine) -> None:
    before = engine.describe("t").created_at
    fill(engine, 1)
    message = engine.read("t", ConsumerSpec("c"), 1).messages[0]
    assert before <= message.time <= before + 60_000


def test_a_batch_of_three_lanes_is_committed_in_one_step(engine: MySqlEngine) -> None:
    for priority in BY_URGENCY:
        fill(engine, 1, 2, priority=priority)
    reader = ConsumerSpec("c")
    taken = engine.read("t", reader, 5)
    assert [one.priority for one in taken.messages] == [
        Priority.HIGH, Priority.HIGH, Priority.MIDDLE, Priority.MIDDLE, Priority.LOW,
    ]  # fmt: skip
    engine.commit("t", reader, taken.claim)
    assert [one.position for one in engine.lag("t", reader)] == [2, 2, 1]


def test_two_first_commits_of_a_consumer_make_one_row(engine: MySqlEngine, sql: Cursor) -> None:
    fill(engine, *range(50))
    reader = ConsumerSpec("c")

    def consume() -> None:
        taken = engine.read("t", reader, 50)
        engine.commit("t", reader, taken.claim)

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    sql.execute("SELECT COUNT(*) FROM msg_c_t WHERE priority='middle'")
    assert sql.fetchone() == (1,)
