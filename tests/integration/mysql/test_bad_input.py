"""What is refused, and that nothing is changed by it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pymysql
import pytest

from headrace.errors import (
    BadTopicName,
    BadTopicValue,
    BodyTooLarge,
    BrokerError,
    ClaimLost,
    ConfigError,
    EngineUnavailable,
    NoSuchTopic,
    StoreError,
    TopicConflict,
)
from headrace.model.retention import Retention
from headrace.model.topics.message_priority import Priority
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.sql.url import parse_url
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from support.mariadb import PASSWORD, MariaDb
from support.ports import free_port

Cursor = pymysql.cursors.Cursor
StartEngine = Callable[..., MySqlEngine]
BAD_NAMES = [
    "A",
    "a;b",
    "x_low",
    "x_middle",
    "x_high",
    "a" * 41,
    "",
    "1a",
    "a`b",
    "a'b",
    "ä",
    "a b",
]


CALLS: tuple[Callable[[MySqlEngine, str], object], ...] = (
    lambda engine, name: engine.delete(name),
    lambda engine, name: engine.describe(name),
    lambda engine, name: engine.append(name, [Entry(b"x")]),
    lambda engine, name: engine.read(name, ConsumerSpec("c"), 1),
    lambda engine, name: engine.commit(name, ConsumerSpec("c", "g"), ("group", "g", [[1, 1]])),
)


@pytest.fixture
def unchanged(sql: Cursor, engine: MySqlEngine):  # noqa: ANN201
    """Every row of every table is the same afterwards, but for leases."""

    def everything() -> dict[str, object]:
        sql.execute("SHOW TABLES")
        found: dict[str, object] = {}
        for (table,) in sql.fetchall():
            if table == "msg_lease":
                continue
            sql.execute(f"SELECT * FROM `{table}`")
            found[table] = sorted(map(repr, sql.fetchall()))
        return found

    engine.append("t", [Entry(b"there")])
    engine.bounds("t")
    before = everything()
    yield
    assert everything() == before


@pytest.mark.usefixtures("unchanged")
def test_names_that_are_none(engine: MySqlEngine) -> None:
    for name in BAD_NAMES:
        for make in (lambda name: engine.create(TopicSpec(name)), engine.adopt):
            with pytest.raises(BadTopicName, match="is refused"):
                make(name)
    for name, call in itertools.product(BAD_NAMES, CALLS):
        with pytest.raises(NoSuchTopic, match="is refused"):
            call(engine, name)


@pytest.mark.usefixtures("unchanged")
def test_a_topic_that_is_not_there(engine: MySqlEngine) -> None:
    reader = ConsumerSpec("c", "g")
    for call in (
        lambda: engine.delete("nope"),
        lambda: engine.describe("nope"),
        lambda: engine.append("nope", [Entry(b"x")]),
        lambda: engine.read("nope", reader, 1),
        lambda: engine.lag("nope", reader),
        lambda: engine.groups("nope"),
        lambda: engine.seek("nope", reader, time_ms=0),
        lambda: engine.dead("nope", "g"),
    ):
        with pytest.raises(NoSuchTopic, match="no topic 'nope'"):
            call()


@pytest.mark.usefixtures("unchanged")
def test_a_body_of_20_mib_is_refused_before_anything_is_sent(engine: MySqlEngine) -> None:
    with pytest.raises(BodyTooLarge, match="20,971,520 bytes is refused"):
        engine.append("t", [Entry(b"small"), Entry(bytes(20 << 20))])


def test_the_largest_body_there_may_be(engine: MySqlEngine) -> None:
    body = b"'" * engine.max_body  # every byte of it is escaped
    engine.append("t", [Entry(body)])
    assert engine.read("t", ConsumerSpec("c"), 1).messages[0].body == body


@pytest.fixture
def generous_server(sql: Cursor) -> Iterator[None]:
    """As MySQL is unless told otherwise: statements of 64 MiB."""
    sql.execute("SELECT @@global.max_allowed_packet")
    [before] = sql.fetchone() or (0,)
    sql.execute(f"SET GLOBAL max_allowed_packet={64 << 20}")
    yield
    sql.execute(f"SET GLOBAL max_allowed_packet={before}")


@pytest.mark.usefixtures("generous_server")
def test_the_largest_body_of_a_generous_server(start_engine: StartEngine) -> None:
    """The column ends one byte below 16 MiB."""
    engine = start_engine()
    engine.create(TopicSpec("t"))
    assert engine.max_body == 16_777_215
    engine.append("t", [Entry(bytes(engine.max_body))])
    assert len(engine.read("t", ConsumerSpec("c"), 1).messages[0].body) == engine.max_body
    with pytest.raises(BodyTooLarge, match="16,777,216 bytes is refused"):
        engine.append("t", [Entry(bytes(engine.max_body + 1))])


@pytest.mark.usefixtures("unchanged")
def test_entries_that_cannot_be_stored(engine: MySqlEngine) -> None:
    for entry in (
        Entry(b"", token="has space"),
        Entry(b"", key="k" * 256),
        Entry(b"", source_ip="1.2.3"),
        Entry(b"", properties={"x": object()}),  # type: ignore[dict-item]
    ):
        with pytest.raises(BadTopicValue):
            engine.append("t", [Entry(b"good"), entry])


@pytest.mark.usefixtures("unchanged")
def test_readers_that_are_none(engine: MySqlEngine) -> None:
    for reader in (
        ConsumerSpec(""),
        ConsumerSpec("x" * 256),
        ConsumerSpec("c", ""),
        ConsumerSpec("c", "has space"),
        ConsumerSpec("c", start="middle"),
        ConsumerSpec("c", lease_ms=0),
        ConsumerSpec("c", lease_ms=1 << 40),
        ConsumerSpec("c", min_share=51),
    ):
        with pytest.raises(BadTopicValue):
            engine.read("t", reader, 1)


@pytest.mark.usefixtures("unchanged")
def test_batches_that_are_none(engine: MySqlEngine) -> None:
    for batch in (0, -1, 100_001):
        with pytest.raises(BadTopicValue, match="a batch has"):
            engine.read("t", ConsumerSpec("c"), batch)


def test_a_foreign_claim_changes_nothing(engine: MySqlEngine) -> None:
    engine.append("t", [Entry(b"x")])
    owner = ConsumerSpec("owner", "g")
    taken = engine.read("t", owner, 1)
    alone = engine.read("t", ConsumerSpec("c"), 1)
    for thief, claim in (
        (ConsumerSpec("thief", "g"), taken.claim),
        (ConsumerSpec("owner", "other"), taken.claim),
        (ConsumerSpec("owner"), taken.claim),
        (ConsumerSpec("owner", "g"), alone.claim),
        (ConsumerSpec("d"), alone.claim),
        (ConsumerSpec("c"), ("alone", "c", [])),
        (ConsumerSpec("c"), ("alone", "c", [["middle", 1, 1]] * 2)),
        (ConsumerSpec("c"), ("alone", "c", [["middle", "1' OR 1", 1]])),
        (owner, ("group", "g", [[1, 1]])),
        (owner, ("group", "g", [["x", None]])),
        (owner, ("nonsense",)),
    ):
        with pytest.raises(ClaimLost):
            engine.commit("t", thief, claim)
        if thief.group is not None:
            with pytest.raises(ClaimLost):
                engine.renew("t", thief, claim)
            with pytest.raises(ClaimLost):
                engine.nack("t", thief, claim, [(Priority.MIDDLE, 1)], 0)
    assert engine.lag("t", owner)[1].claimed == 1
    engine.commit("t", owner, taken.claim)
    with pytest.raises(ClaimLost):
        engine.commit("t", owner, taken.claim)


def test_only_messages_of_the_claim_can_be_nacked(engine: MySqlEngine) -> None:
    engine.append("t", [Entry(b"x"), Entry(b"y")])
    reader = ConsumerSpec("c", "g")
    taken = engine.read("t", reader, 1)
    with pytest.raises(BadTopicValue, match="not in the claim"):
        engine.nack("t", reader, taken.claim, [(Priority.MIDDLE, 2)], 0)
    with pytest.raises(BadTopicValue, match="nack needs a group"):
        engine.nack("t", ConsumerSpec("c"), taken.claim, [(Priority.MIDDLE, 1)], 0)
    with pytest.raises(BadTopicValue, match="a delay is from 0"):
        engine.nack("t", reader, taken.claim, [(Priority.MIDDLE, 1)], -1)
    assert engine.lag("t", reader)[1].retrying == 0


@pytest.mark.usefixtures("unchanged")
def test_a_topic_that_is_there_with_other_settings(engine: MySqlEngine) -> None:
    engine.create(TopicSpec("t"))
    with pytest.raises(TopicConflict, match="nothing was changed"):
        engine.create(TopicSpec("t", queues=2))
    with pytest.raises(TopicConflict):
        engine.create(TopicSpec("t", retention=Retention(1000)))


@pytest.mark.parametrize(
    "option", [{"keep_unread": True}, {"append_mode": "counter"}, {"partition_rows": 1000}]
)
def test_a_topic_that_is_there_with_other_options_is_refused(
    engine: MySqlEngine, option: dict[str, object]
) -> None:
    """Who asks for keep_unread and gets a topic without it loses messages."""
    with pytest.raises(TopicConflict, match=f"{next(iter(option))}.*nothing was changed"):
        engine.create(TopicSpec("t", options=option))

    engine.create(TopicSpec("u", options=option))
    engine.create(TopicSpec("u", options=option))
    engine.create(TopicSpec("u"))


@pytest.mark.usefixtures("unchanged")
def test_options_that_are_none(engine: MySqlEngine) -> None:
    refused: list[dict[str, object]] = [
        {"unknown": 1},
        {"append_mode": "magic"},
        {"partition_rows": 5},
        {"first_id": 0},
        {"first_id": "1"},
    ]
    for options in refused:
        with pytest.raises(BadTopicValue):
            engine.create(TopicSpec("u", options=options))


@pytest.mark.usefixtures("unchanged")
def test_tables_of_other_programs_are_left_unchanged(engine: MySqlEngine, sql: Cursor) -> None:
    sql.execute("CREATE TABLE msg_p_mine_high (id INT)")
    with pytest.raises(TopicConflict, match="headrace topic adopt mine"):
        engine.create(TopicSpec("mine"))
    with pytest.raises(BrokerError, match="nothing was changed"):
        engine.adopt("mine")
    sql.execute("DROP TABLE msg_p_mine_high")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://h",
        "mysql://h/",
        "mysql://h/a/b",
        "mysql://h:99999/d",
        "mysql://h/d?readers=0",
        "mysql://h/d?nonsense=1",
        "mysql://h/d?driver=odbc",
        "postgres://h/d",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError):
        parse_url(url)


def test_the_password_is_shown_nowhere(server: MariaDb, database: str) -> None:
    url = server.url(database)
    engine = MySqlEngine(url)
    assert PASSWORD not in repr(engine) + repr(engine.settings) + str(engine.settings)
    engine.close()
    wrong = url.replace("sEcret", "wr0ng-one")
    with pytest.raises(EngineUnavailable) as refused:
        MySqlEngine(wrong)
    assert "wr0ng-one" not in str(refused.value) and "nothing was done" in str(refused.value)


def test_no_server_and_no_database(server: MariaDb) -> None:
    with pytest.raises(EngineUnavailable, match=r"no connection to 127\.0\.0\.1"):
        MySqlEngine(f"mysql://u:p@127.0.0.1:{free_port()}/d?connect_timeout=1")
    with pytest.raises(EngineUnavailable, match="nothing was done"):
        MySqlEngine(server.url("no_such_database"))


def test_a_partly_stored_append_says_what_is_stored(engine: MySqlEngine, sql: Cursor) -> None:
    sql.execute("DROP TABLE msg_p_t_low")
    entries = [Entry(b"a", Priority.HIGH), Entry(b"b", Priority.HIGH), Entry(b"c", Priority.LOW)]
    with pytest.raises(StoreError, match=r"2 messages of priority high are stored; then, of prio"):
        engine.append("t", entries)
