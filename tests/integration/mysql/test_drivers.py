"""Each driver that is installed does the same: PyMySQL always, mysqlclient where it is."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pymysql
import pytest

from headrace.errors import ClaimLost, EngineUnavailable, StoreError
from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import wait_for
from support.mariadb import MariaDb

StartEngine = Callable[..., MySqlEngine]
DRIVERS = ["pymysql", *(["mysqlclient"] if find_spec("MySQLdb") else [])]
ALL_BYTES = bytes(range(256)) + b"%s '\"\\ \x1a"


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def test_messages_come_back_whole(start_engine: StartEngine, driver: str) -> None:
    engine = start_engine(driver=driver)
    engine.create(TopicSpec("t"))
    sent = [
        Entry(ALL_BYTES, priority, token="p;1", key="ключ-%s-😀", source_ip="2001:db8::1",
              tags="новый", message_id="m", born=17, properties={"a%": "b'"})
        for priority in BY_URGENCY
    ]  # fmt: skip
    assert engine.append("t", sent) == [1, 1, 1]
    for reader in (ConsumerSpec("c"), ConsumerSpec("c", "g")):
        got = engine.read("t", reader, 9)
        assert [
            Entry(one.body, one.priority, token=one.token, key=one.key, source_ip=one.source_ip,
                  tags=one.tags, message_id=one.message_id, born=one.born,
                  properties=one.properties)
            for one in got.messages
        ] == sent  # fmt: skip
        engine.commit("t", reader, got.claim)
        assert all(lag.messages == 0 for lag in engine.lag("t", reader))


@pytest.mark.parametrize("append_mode", ["auto", "counter"])
def test_tokens_and_keys_of_any_characters(
    start_engine: StartEngine, driver: str, append_mode: str
) -> None:
    engine = start_engine(driver=driver)
    engine.create(TopicSpec("t", options={"append_mode": append_mode}))
    texts = ["plain-1", "it's", "a\\", "\\'", "50%s", '"', "--", "x');", "`", "{}", "_utf8"]
    keys = [*texts, "", " ", "two\nlines", "\0\x1a", "日本 😀", None]
    sent = [(token, key) for token in texts for key in keys]
    engine.append("t", [Entry(b"x", token=token, key=key) for token, key in sent])
    got = engine.read("t", ConsumerSpec("c"), 1000).messages
    assert [(one.token, one.key) for one in got] == sent


def test_claims_retries_and_positions(start_engine: StartEngine, driver: str) -> None:
    engine = start_engine(driver=driver)
    engine.create(TopicSpec("t"))
    engine.append("t", [Entry(b"%d" % number) for number in range(5)])
    me = ConsumerSpec("me", "g", max_attempts=2)
    taken = engine.read("t", me, 3)
    engine.renew("t", me, taken.claim)
    engine.nack("t", me, taken.claim, [(Priority.MIDDLE, 2)], 0, "почему")
    engine.commit("t", me, taken.claim)
    with pytest.raises(ClaimLost):
        engine.commit("t", me, taken.claim)
    again = engine.read("t", me, 9)
    assert [(one.id, one.attempts) for one in again.messages] == [(2, 2), (4, 1), (5, 1)]
    engine.nack("t", me, again.claim, [(Priority.MIDDLE, 2)], 0, "почему")
    engine.commit("t", me, again.claim)
    assert [(one.id, reason) for one, reason in engine.dead("t", "g")] == [(2, "почему")]
    engine.seek("t", me, positions={Priority.MIDDLE: 4})
    assert [one.id for one in engine.read("t", me, 9).messages] == [5]
    assert [group.group for group in engine.groups("t")] == ["g"]


def test_ids_of_a_counter(start_engine: StartEngine, driver: str) -> None:
    """Several statements in one packet."""
    engine = start_engine(driver=driver)
    engine.create(TopicSpec("t", options={"append_mode": "counter"}))
    assert engine.append("t", [Entry(b"a"), Entry(b"b")]) == [1, 2]
    assert engine.append("t", [Entry(b"x")] * 1500) == list(range(3, 1503))
    assert len(engine.read("t", ConsumerSpec("c"), 2000).messages) == 1502


def test_a_counted_append_that_is_refused_leaves_a_usable_connection(
    start_engine: StartEngine, driver: str, sql: pymysql.cursors.Cursor
) -> None:
    """The second statement of the packet fails; the counter goes back with it."""
    engine = start_engine(driver=driver, writers=1)
    engine.create(TopicSpec("t", options={"append_mode": "counter"}))
    sql.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON msg_p_t_middle FOR EACH ROW BEGIN "
        "IF NEW.body = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF; END"
    )
    for _ in range(2):
        with pytest.raises(StoreError, match="nothing was done"):
            engine.append("t", [Entry(b"bad")])
    assert engine.append("t", [Entry(b"good")]) == [1]


def test_a_server_that_goes_and_comes_back(
    start_engine: StartEngine, driver: str, server: MariaDb
) -> None:
    engine = start_engine(driver=driver)
    engine.create(TopicSpec("t"))
    engine.append("t", [Entry(b"before")])
    server.kill()
    with pytest.raises(EngineUnavailable, match="nothing was done"):
        engine.append("t", [Entry(b"never")])
    with pytest.raises(EngineUnavailable):
        engine.read("t", ConsumerSpec("c"), 1)
    server.start()
    engine.append("t", [Entry(b"after")])
    assert wait_for(lambda: len(engine.read("t", ConsumerSpec("c"), 9).messages) == 2)


def test_a_wrong_password(server: MariaDb, database: str, driver: str) -> None:
    with pytest.raises(EngineUnavailable, match="nothing was done") as refused:
        MySqlEngine(server.url(database, driver=driver).replace("sEcret", "wr0ng"))
    assert refused.value.is_denied
