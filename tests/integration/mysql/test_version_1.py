"""Tables that version 1 made and filled are read in full: topics, groups, claims, retries."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from fixtures import contents
from fixtures.opening import mysql_statements
from headrace import topics
from support.mariadb import MariaDb


@pytest.fixture
def store(server: MariaDb, database: str, sql: pymysql.cursors.Cursor) -> Iterator[topics.Store]:
    for statement in mysql_statements():
        sql.execute(statement)
    with topics.open(server.url(database)) as store:
        yield store


def singles(*numbers: int) -> list[bytes]:
    return [b"single-%d" % number for number in numbers]


def test_topics_and_their_messages(store: topics.Store) -> None:
    assert sorted(one.name for one in store.list()) == ["events", "single"]
    info = store.describe("events")
    assert info.counts == dict.fromkeys(("high", "middle", "low"), 10)
    assert info.retention is not None
    assert info.retention.size == 500_000_000
    expected = [
        (f"event-{number}", priority, f"key-{number % 5}", "even" if number % 2 == 0 else "odd",
         {"number": str(number)}, "producer-1")
        for priority in ("high", "middle", "low")
        for number in range(contents.EVENTS)
        if contents.LANES[number % 3] == priority
    ]  # fmt: skip
    found = store.consumer("events", token="all").read(100)
    assert [
        (one.text, one.priority, one.ref_key, one.tags, one.properties, one.token) for one in found
    ] == expected


def test_groups_are_where_they_were(store: topics.Store) -> None:
    assert {one.group for one in store.groups("single") if one.group} == {
        "done",
        "halfway",
        "failing",
        "patient",
    }

    def state(group: str) -> tuple[int, int, int]:
        lag = store.consumer("single", token="w", group=group).lag()["middle"]
        return lag.messages, lag.retrying, lag.dead

    assert state("done") == (0, 0, 0)
    assert state("failing") == (14, 0, 1)
    assert state("patient") == (15, 1, 0)
    priorities = store.consumer("events", token="w", group="lanes").lag()
    assert [priorities[name].messages for name in ("high", "middle", "low")] == [0, 8, 10]


def test_the_claim_of_a_member_that_is_gone_is_handed_out_again(store: topics.Store) -> None:
    other = store.consumer("single", token="other", group="halfway")
    found = [*other.read(100), *other.read(100)]

    assert sorted(one.id for one in found) == list(range(9, 21))
    attempts = {one.body: one.attempts for one in found}
    assert [attempts[body] for body in singles(8, 9, 10)] == [2, 2, 2]
    assert all(attempts[body] == 1 for body in singles(*range(11, 20)))


def test_dead_messages_are_listed_and_the_rest_is_read(store: topics.Store) -> None:
    failing = store.consumer("single", token="other", group="failing")

    assert [(one.body, reason) for one, reason in failing.dead()] == [(b"single-0", "broken")]
    assert [one.body for one in failing.read(100)] == singles(*range(6, 20))


def test_a_retry_and_what_is_new(store: topics.Store) -> None:
    patient = store.consumer("single", token="other", group="patient")
    found = {one.body: one.attempts for one in patient.read(100)}

    later = found.pop(b"single-2", None)  # once 29 days have passed since the tables were written
    assert later in (None, 2)
    assert found == dict.fromkeys(singles(*range(6, 20)), 1)


def test_a_reader_on_its_own_goes_on(store: topics.Store) -> None:
    found = store.consumer("single", token="alone").read(100)
    assert [one.body for one in found] == singles(*range(4, 20))


def test_what_is_appended_next_comes_behind_everything(store: topics.Store) -> None:
    number = store.producer("single", token="new").append(b"new")
    done = store.consumer("single", token="other", group="done")

    assert number > contents.SINGLES
    assert [one.body for one in done.read(10, wait=10)] == [b"new"]
