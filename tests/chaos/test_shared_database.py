"""A shared broker whose database loses answers, or goes back in time, under load."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.testing import wait_for
from support.answer_thief import AnswerThief
from support.mariadb import MariaDb
from support.nodes import nodes
from support.shared_ledger import SharedLedger

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(600),
    # What clients leave behind when their connection ends is no verdict.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
TABLES = ("hr_shard", "hr_epoch", "hr_file", "hr_block")


@pytest.fixture
def database(mariadb_server: MariaDb) -> str:
    name = f"shared_{uuid4().hex[:8]}"
    mariadb_server.create_database(name)
    return name


@pytest.fixture
def thief(mariadb_server: MariaDb) -> Iterator[AnswerThief]:
    proxy = AnswerThief("127.0.0.1", mariadb_server.port)
    proxy.start()
    yield proxy
    proxy.stop()


def check(ledger: SharedLedger, what: str, *, unflagged: int) -> None:
    ledger.drain()
    print(f"{what}: confirmed {len(ledger.confirmed)}, lost {len(ledger.lost())}, ghosts "  # noqa: T201
          f"{len(ledger.ghosts())}, unflagged {len(ledger.unflagged())}")  # fmt: skip
    assert (ledger.lost(), ledger.ghosts()) == (set(), set())
    assert len(ledger.unflagged()) <= unflagged


def test_the_answer_of_every_commit_is_lost(
    tmp_path: Path, mariadb_server: MariaDb, database: str, thief: AnswerThief
) -> None:
    """The first answer of each: the owner reads what became of it. A takeover comes between."""
    url = mariadb_server.url(database).replace(f":{mariadb_server.port}/", f":{thief.port}/")
    with nodes(tmp_path, url, "ab", lease=5) as shared:
        for node in shared.all:
            node.start()
        shared.active()
        ledger = SharedLedger(shared)
        with ledger.load():
            thief.is_stealing = True
            time.sleep(10)
            shared.active().kill()
            shared.active()
            time.sleep(10)
            stolen, thief.is_stealing = thief.stolen, False
        assert stolen > 100
        check(ledger, f"{stolen} answers lost", unflagged=0)


def test_a_database_put_back_by_five_seconds_is_noticed(
    tmp_path: Path, mariadb_server: MariaDb, database: str
) -> None:
    """All nodes end with an error, and the last owner's directory has all that was confirmed."""

    def run(*statements: str) -> None:
        with mariadb_server.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    with nodes(tmp_path, mariadb_server.url(database), "abc", lease=5) as shared:
        for node in shared.all:
            node.start()
        owner = shared.active()
        ledger = SharedLedger(shared)
        with ledger.load():
            time.sleep(3)
            run(*(f"CREATE TABLE old_{one} LIKE {one}" for one in TABLES))
            held = "SELECT * FROM hr_shard FOR UPDATE"  # no commit comes between
            run("BEGIN", held, *(f"INSERT INTO old_{one} SELECT * FROM {one}" for one in TABLES),
                "COMMIT")  # fmt: skip
            time.sleep(5)
            before = len(ledger.confirmed)
            run("BEGIN", held, *(f"DELETE FROM {one}" for one in TABLES),
                *(f"INSERT INTO {one} SELECT * FROM old_{one}" for one in TABLES),
                "COMMIT")  # fmt: skip
            for node in shared.all:
                assert node.wait() != 0
            assert before > 1000
        assert "the database lost commits" in owner.log()
        done = subprocess.run(
            [sys.executable, "-m", "headrace", "share", "adopt", str(owner.data), shared.url,
             "--shard", "second"], capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert "copied" in done.stdout, done.stderr
        for node in shared.all:
            node.use_shard("second")
            node.start()
        wait_for(lambda: any(node.is_active for node in shared.all), timeout=30)
        check(ledger, "database put back by 5 s", unflagged=len(ledger.unflagged()))
