"""Connections that end while the server works: what it did and nobody was told is known or unknown,
and nothing is lost or acknowledged twice by it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from headrace.store.mysql.groups import read_ahead
from support import cluster_ledger
from support.answer_thief import COMMIT, AnswerThief
from support.mariadb import MariaDb

SECONDS = 2


class Thief(AnswerThief):
    """Takes the answers of some COMMITs, and of some statements that commit by themselves."""

    chance = random.Random(3)

    def is_wanted(self, statement: bytes) -> bool:
        changes = statement.endswith(COMMIT) or statement[5:11] in (b"UPDATE", b"INSERT")
        return changes and self.chance.random() < 0.02


@pytest.fixture
def thief(server: MariaDb) -> Iterator[Thief]:
    proxy = Thief("127.0.0.1", server.port)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.mark.parametrize("append_mode", ["auto", "counter"])
@pytest.mark.parametrize("is_quick", [False, True])
def test_lost_answers_lose_no_messages(
    server: MariaDb,
    database: str,
    thief: Thief,
    monkeypatch: pytest.MonkeyPatch,
    is_quick: bool,
    append_mode: str,
) -> None:
    monkeypatch.setattr(read_ahead, "_QUICK_READS", 2)

    def steal() -> None:
        thief.is_stealing = True
        time.sleep(SECONDS)
        thief.is_stealing = False

    url = server.url(database).replace(f":{server.port}/", f":{thief.port}/")
    accounts = cluster_ledger.run(
        [url] * 2, seed=7, appends=400, accident=steal, is_quick=is_quick, append_mode=append_mode
    )
    print(accounts, thief.stolen, "answers stolen")  # noqa: T201
    accounts.check()
    assert thief.stolen > 5
