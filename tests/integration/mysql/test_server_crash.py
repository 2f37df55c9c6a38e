"""The server dies and comes back: what was confirmed is there, and the gap behind it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pymysql
import pytest

from headrace.errors import EngineUnavailable
from headrace.store.mysql.engine import MySqlEngine
from headrace.store.topics.types import ConsumerSpec, Entry, TopicSpec
from headrace.testing import wait_for
from support.mariadb import MariaDb

StartEngine = Callable[..., MySqlEngine]


def test_a_server_does_not_share_its_temporary_tables(
    server: MariaDb, sql: pymysql.cursors.Cursor
) -> None:
    """Each server deletes, when it starts, all that it finds in the directory for them."""
    sql.execute("SELECT @@tmpdir")
    assert sql.fetchall() == ((str(server.directory),),)


def test_confirmed_messages_survive_and_reading_goes_on(
    engine: MySqlEngine, server: MariaDb
) -> None:
    confirmed: list[bytes] = []
    failed: list[EngineUnavailable] = []

    def produce(number: int) -> None:
        step = 0
        while not failed:
            body = b"%d.%d" % (number, step)
            try:
                engine.append("t", [Entry(body)])
            except EngineUnavailable as error:
                failed.append(error)
            else:
                confirmed.append(body)
                step += 1

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    wait_for(lambda: len(confirmed) > 200)
    server.kill()
    for one in threads:
        one.join()
    with pytest.raises(EngineUnavailable, match="nothing was done"):
        engine.append("t", [Entry(b"x")])
    server.start()
    assert any("may have been stored" in str(error) for error in failed) or all(
        "nothing was done" in str(error) for error in failed
    )
    engine.append("t", [Entry(b"after")])
    reader = ConsumerSpec("c", "g")
    got: list[bytes] = []

    def last_one_there() -> bool:
        taken = engine.read("t", reader, 1000)
        engine.commit("t", reader, taken.claim)
        got.extend(one.body for one in taken.messages)
        return b"after" in got

    wait_for(last_one_there)
    assert set(confirmed) <= set(got)
    assert len(got) == len(set(got))


def test_an_id_that_died_with_the_server_is_fenced(engine: MySqlEngine, server: MariaDb) -> None:
    with server.connect("information_schema") as probe:
        database = engine.settings.database
        with probe.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(
                f"INSERT INTO {database}.msg_p_t_middle (body,token) VALUES ('dies','p')"
            )
        engine.append("t", [Entry(b"lives")])
        assert engine.read("t", ConsumerSpec("c", "g"), 9).messages == ()
        server.kill()
    server.start()
    assert engine.append("t", [Entry(b"next")]) >= [3]
    reader = ConsumerSpec("c", "g")
    got: list[tuple[int, bytes]] = []

    def both_there() -> bool:
        taken = engine.read("t", reader, 9)
        engine.commit("t", reader, taken.claim)
        got.extend((one.id, one.body) for one in taken.messages)
        return len(got) >= 2

    wait_for(both_there)
    assert [body for _, body in got] == [b"lives", b"next"] and got[0][0] == 2
    with server.connect(engine.settings.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT flags FROM msg_p_t_middle WHERE id=1")
        assert cursor.fetchone() == (1,)  # a tombstone


def test_idle_connections_to_a_server_that_was_restarted_are_not_used(
    engine: MySqlEngine, server: MariaDb
) -> None:
    engine.append("t", [Entry(b"before")])
    server.kill()
    server.start()
    assert engine.append("t", [Entry(b"after")])  # no error: nothing was under way
    assert wait_for(lambda: len(engine.read("t", ConsumerSpec("c"), 9).messages) == 2)


def test_a_server_that_became_read_only_is_left(
    server: MariaDb, database: str, start_engine: StartEngine
) -> None:
    """As after a failover: the name leads elsewhere, open connections do not."""
    start_engine().create(TopicSpec("t"))
    root = pymysql.connect(user="root", unix_socket=str(server.directory / "s"), autocommit=True)
    with root, root.cursor() as cursor:
        cursor.execute("CREATE USER plain@'%' IDENTIFIED BY 'plain'")  # nobody special
        try:
            cursor.execute(f"GRANT ALL ON {database}.* TO plain@'%'")
            place = f"127.0.0.1:{server.port}/{database}"
            engine = MySqlEngine(f"mysql://plain:plain@{place}?housekeeping=off")
            engine.append("t", [Entry(b"before")])
            cursor.execute("SET GLOBAL read_only=ON")
            for _ in range(2):
                with pytest.raises(EngineUnavailable, match="takes no changes at present"):
                    engine.append("t", [Entry(b"refused")])
            assert engine.context.writers._idle == []
            cursor.execute("SET GLOBAL read_only=OFF")
            engine.append("t", [Entry(b"after")])
            got = engine.read("t", ConsumerSpec("c"), 9).messages
            assert [one.body for one in got] == [b"before", b"after"]
            engine.close()
        finally:
            cursor.execute("SET GLOBAL read_only=OFF")
            cursor.execute("DROP USER plain@'%'")


def test_a_half_made_topic_is_made_and_a_half_deleted_one_is_gone(
    start_engine: StartEngine, server: MariaDb, database: str
) -> None:
    engine = start_engine()
    engine.create(TopicSpec("t"))
    engine.append("t", [Entry(b"old")])
    with server.connect(database) as connection:
        connection.cursor().execute("UPDATE msg_topic SET state='deleting'")
        connection.cursor().execute("DROP TABLE msg_l_t")
    fresh = start_engine()
    assert fresh.topics() == []
    fresh.create(TopicSpec("t"))
    assert fresh.read("t", ConsumerSpec("c"), 1).messages == ()
