"""A program written from the original document only, beside ours on the same topic in MySQL.

Its statements are the document's, with `offset` in backticks: MariaDB reserves the word.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle

import pytest

from headrace import topics
from headrace.store.mysql.groups import group_reads
from headrace.testing import wait_for
from support.mariadb import MariaDb, prepared

COUNT = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = prepared(tmp_path_factory.mktemp("db"))
    server.create_database("shop")
    yield server
    server.stop()


class OriginalProducer(threading.Thread):
    """append(): one INSERT. Some of its transactions are rolled back."""

    def __init__(self, server: MariaDb) -> None:
        super().__init__()
        self._server = server
        self.stored: list[bytes] = []

    def run(self) -> None:
        rng = random.Random(5)
        with self._server.connect("shop") as connection, connection.cursor() as cursor:
            for n in range(COUNT):
                body = b"their %d" % n
                cursor.execute("BEGIN")
                cursor.execute(
                    "INSERT INTO msg_p_testtopic_high (body, source_ip, token, ref_key) "
                    "VALUES (%s, '123940', 'appid-340101;sid-p1sdfj', 'order-421')",
                    (body,),
                )
                is_kept = rng.random() < 0.8
                cursor.execute("COMMIT" if is_kept else "ROLLBACK")
                if is_kept:
                    self.stored.append(body)


class OriginalConsumer:
    """read() of a single consumer on one priority, and its commit."""

    TOKEN = "appid-7;sid-alone"

    def __init__(self, server: MariaDb) -> None:
        self._connection = server.connect("shop")
        self._cursor = self._connection.cursor()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.found: list[bytes] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """When there is nothing more."""
        self._is_over.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while True:
            is_over = self._is_over.is_set()
            while (body := self.read_one()) is not None:
                self.found.append(body)
            if is_over:
                return
            time.sleep(0.001)

    def read_one(self) -> bytes | None:
        """The next message, committed; None when there is none at offset + 1."""
        sql = self._cursor
        sql.execute(
            "SELECT `offset` FROM msg_c_testtopic "
            "WHERE token = %s AND priority = 'high' AND group_id IS NULL",
            (self.TOKEN,),
        )
        found = sql.fetchone()
        if found is None:
            sql.execute("SELECT MIN(id) FROM msg_p_testtopic_high")
            found = sql.fetchone()
        assert found is not None
        offset = found[0]
        if offset is None:
            return None
        sql.execute("SELECT body FROM msg_p_testtopic_high WHERE id = %s + 1 LIMIT 1", (offset,))
        row = sql.fetchone()
        if row is None:
            return None
        sql.execute(
            "INSERT INTO msg_c_testtopic (token, `offset`, priority) VALUES (%s, %s, 'high') "
            "ON DUPLICATE KEY UPDATE `offset` = %s",
            (self.TOKEN, offset + 1, offset + 1),
        )
        return bytes(row[0])


def test_both_programs_share_a_topic(server: MariaDb) -> None:
    url = server.url("shop")
    with topics.open(url) as store, server.connect("shop") as other, other.cursor() as cursor:
        store.create("testtopic")
        theirs = OriginalProducer(server)
        ours = store.producer("testtopic", token="appid-1")
        members = [store.consumer("testtopic", f"m{n}", "billing") for n in range(2)]
        alone = store.consumer("testtopic", token="audit")
        reader = OriginalConsumer(server)
        appended = [b"our %d" % n for n in range(COUNT)]

        def append() -> None:
            for body in appended:
                ours.append(body, priority="high", source_ip=2130706433)

        producing = [theirs, threading.Thread(target=append)]
        for one in producing:
            one.start()
        reader.start()
        by_group: Counter[bytes] = Counter()
        addresses: set[str | None] = set()
        turns = cycle(members)

        def has_read_everything() -> bool:
            is_over = not any(one.is_alive() for one in producing)
            member = next(turns)
            batch = member.read(50, wait=0.1)
            by_group.update(one.body for one in batch)
            addresses.update(one.source_ip for one in batch)
            member.commit(batch)
            return is_over and by_group.total() >= COUNT + len(theirs.stored)

        wait_for(has_read_everything, timeout=60)
        expected = Counter(appended + theirs.stored)
        assert by_group == expected
        assert not members[0].read(50)
        assert addresses == {"0.1.228.36", "127.0.0.1"}

        by_one: Counter[bytes] = Counter()
        while by_one.total() < expected.total():
            batch = alone.read(100, wait=10.0)
            assert batch, "the single consumer stopped"
            by_one.update(one.body for one in batch)
            alone.commit(batch)
        assert by_one == expected
        assert not alone.read(100)

        # Gaps are closed now, so theirs comes to the end, too. It began behind the id that was the
        # smallest then, and never sees that one (nor what was still open before it). A tombstone is
        # an empty message to it.
        reader.stop()
        bodies = [body for body in reader.found if body]
        assert 1 <= expected.total() - len(bodies) <= 2
        cursor.execute("SELECT body FROM msg_p_testtopic_high WHERE flags=0 ORDER BY id")
        assert bodies == [body for (body,) in cursor][-len(bodies) :]

        # The progress of our group, as the document reads it.
        cursor.execute("SELECT MAX(id) FROM msg_p_testtopic_high WHERE flags=0")
        [last] = cursor.fetchall()

        def shown() -> bool:
            members[0].read(1)
            cursor.execute(
                "SELECT MAX(`offset`) FROM msg_c_testtopic "
                "WHERE group_id = 'billing' AND priority = 'high'"
            )
            return bool(cursor.fetchone()[0] >= last[0])

        wait_for(shown, timeout=10)
        assert sorted(one.group or one.members[0] for one in store.groups("testtopic")) == [
            OriginalConsumer.TOKEN, "audit", "billing",
        ]  # fmt: skip


def test_the_offset_of_a_group_stays_behind_what_is_not_committed(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_reads, "_KEEP_S", 0.0)

    def offset() -> int:
        cursor.execute("SELECT `offset` FROM msg_c_seen WHERE group_id='g' AND priority='middle'")
        return int(cursor.fetchone()[0])

    with (
        topics.open(server.url("shop")) as store,
        server.connect("shop") as other,
        other.cursor() as cursor,
    ):
        store.create("seen")
        store.producer("seen", token="p").append_many([b"%d" % n for n in range(20)])
        first, second = (store.consumer("seen", token, "g") for token in ("a", "b"))
        held, done = first.read(5), second.read(5)
        second.commit(done)
        assert offset() == 0
        first.commit(held)
        assert offset() == 10
        batch = first.read(5)
        first.nack(batch[2], delay=3600)
        first.commit(batch)
        assert offset() == 12
