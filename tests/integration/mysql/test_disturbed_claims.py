"""Members that claim ahead, and somebody who sets their group to other positions, forgets it, nacks
and closes all the time: no two claims ever overlap, and nothing stays behind."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count

import pymysql
import pytest

from headrace.errors import ClaimLost
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.mysql.groups import group_rows, read_ahead
from headrace.store.topics.types import ConsumerSpec, Entry
from support import mysql_audit

SECONDS = 3.0
MESSAGES = 400
LEASE_MS = 150
StartEngine = Callable[..., MySqlEngine]
Problems = set[tuple[object, ...]]


class Member(threading.Thread):
    def __init__(self, engine: MySqlEngine, token: str, until: float, *, nacks: bool) -> None:
        super().__init__()
        self._engine, self._until, self._nacks = engine, until, nacks
        self._reader = ConsumerSpec(token, "g", lease_ms=LEASE_MS)
        self._chance = random.Random(token)
        self.count = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self._until:
                self._work()
        except BaseException as error:
            self.error = error

    def _work(self) -> None:
        engine, reader, chance = self._engine, self._reader, self._chance
        try:
            taken = engine.read("t", reader, 1)
            for _ in range(chance.randrange(60)):
                if not taken.messages:
                    break
                self.count += 1
                taken = engine.commit_and_read("t", reader, taken.claim, 1)
            odds = chance.random()
            if odds < 0.2:
                time.sleep(1.5 * LEASE_MS / 1000)
            elif odds < 0.4:
                engine.release("t", reader)
            elif taken.messages and odds < 0.7 and self._nacks:
                engine.nack("t", reader, taken.claim, None, chance.choice((0, 50)))
            elif taken.messages and odds < 0.9:
                engine.commit("t", reader, taken.claim)
        except ClaimLost:
            pass


def reset(engine: MySqlEngine, chance: random.Random) -> None:
    group = ConsumerSpec("x", "g")
    odds = chance.random()
    if odds < 0.5:
        chosen = chance.sample(list(Priority), chance.randrange(1, 4))
        engine.seek("t", group, positions={one: chance.randrange(MESSAGES) for one in chosen})
    elif odds < 0.6:
        engine.forget_group("t", group)
    elif odds < 0.8:
        engine.append("t", [Entry(b"more", chance.choice(list(Priority)))] * 5)
    else:
        engine.lag("t", group)


def problems(sql: pymysql.cursors.Cursor) -> Problems:
    """What two members have, or nobody can have, in one snapshot."""
    sql.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    sql.execute("SELECT priority,claimed FROM msg_c_t WHERE group_id='g'")
    claimed = dict(sql.fetchall())
    sql.execute("SELECT priority,start_id,end_id,nacked FROM msg_l_t WHERE end_id>0")
    ranges = sql.fetchall()
    sql.execute("SELECT priority,msg_id FROM msg_r_t WHERE state='retry'")
    retries = sql.fetchall()
    sql.execute("COMMIT")
    held = Counter((label, number) for label, number in retries)
    for label, start, end, nacked in ranges:
        aside = group_rows.split_ids(nacked)
        held.update((label, one) for one in range(start, end + 1) if one not in aside)
    return {("twice", *place) for place, count in held.items() if count > 1} | {
        ("not claimed", *place) for place in held if place[1] > claimed.get(place[0], 0)
    }


@pytest.fixture(autouse=True)
def _members_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Often, and for longer than they know."""
    monkeypatch.setattr(read_ahead, "_QUICK_READS", 2)
    monkeypatch.setattr(read_ahead, "_QUICK_S", 0.5)
    monkeypatch.setattr(read_ahead, "LEASE_MS", 20)
    monkeypatch.setattr(read_ahead.IdsAhead, "is_over", False)


def test_claims_never_overlap_and_nothing_stays_behind(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, start_engine: StartEngine
) -> None:
    for priority in Priority:
        engine.append("t", [Entry(b"x", priority)] * MESSAGES)
    until, chance = time.monotonic() + SECONDS, random.Random(11)
    engines = [start_engine(), start_engine()]
    members = [Member(engines[at % 2], f"m{at}", until, nacks=True) for at in range(4)]
    for one in members:
        one.start()
    found: Problems = set()
    while time.monotonic() < until:
        reset(engine, chance)
        for _ in range(5):
            # A view of MariaDB may have a transaction without the one before it: look twice.
            found |= problems(sql) & problems(sql)
            time.sleep(0.01)
    for one in members:
        one.join()
    assert [one.error for one in members] == [None] * len(members)
    assert not found
    assert sum(one.count for one in members) > 200

    engine.seek("t", ConsumerSpec("x", "g"), positions=dict.fromkeys(Priority, 0))
    last, expected = ConsumerSpec("last", "g"), Counter[tuple[str, int]]()
    for priority in Priority:
        sql.execute(f"SELECT id FROM msg_p_t_{priority.label} WHERE flags=0")
        expected.update((priority.label, number) for (number,) in sql.fetchall())
    read: Counter[tuple[str, int]] = Counter()
    taken = engine.read("t", last, 50)
    while taken.messages:
        read.update((one.priority.label, one.id) for one in taken.messages)
        taken = engine.commit_and_read("t", last, taken.claim, 50)
    assert read == expected
    lags = engine.lag("t", last)
    assert {(one.messages, one.claimed, one.retrying) for one in lags} == {(0, 0, 0)}


def test_every_message_is_acknowledged_once(
    engine: MySqlEngine, sql: pymysql.cursors.Cursor, start_engine: StartEngine
) -> None:
    """Says the database, of members that are too slow or close; nobody resets the group."""
    mysql_audit.watch(sql, "t")
    until, engines = time.monotonic() + SECONDS, [start_engine(), start_engine()]
    members = [Member(engines[at % 2], f"m{at}", until, nacks=False) for at in range(6)]
    bodies = (b"%d" % number for number in count())

    def append(size: int) -> None:
        for priority in Priority:
            engine.append("t", [Entry(next(bodies), priority) for _ in range(size)])

    append(MESSAGES)
    for one in members:
        one.start()
    while time.monotonic() < until:
        append(5)
        time.sleep(0.02)
    for one in members:
        one.join()
    assert [one.error for one in members] == [None] * len(members)
    last = ConsumerSpec("last", "g")
    while any(one.messages for one in engine.lag("t", last)):  # some leases have to end
        taken = engine.read("t", last, 50)
        if taken.messages:
            engine.commit("t", last, taken.claim)
    assert set(mysql_audit.acknowledged(sql, "t", "g").values()) == {1}
