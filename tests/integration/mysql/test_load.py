"""Producers that roll back, consumers and a server that die: nothing lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import mysql_load
from support.mariadb import MariaDb


def judge(accounts: mysql_load.Accounts) -> None:
    print(accounts)  # noqa: T201 - shown with -s, and when something is wrong
    assert not accounts.missing, str(accounts)
    assert not accounts.lost, str(accounts)
    assert not accounts.twice, str(accounts)
    assert accounts.ended == accounts.stored  # each once, says the database
    assert set(accounts.acknowledged) <= set(accounts.ended)
    assert set(accounts.ended) <= set(accounts.acknowledged) | accounts.unknown
    assert accounts.refused > 0  # the paused one was too late
    assert accounts.tombstones > 0  # there were holes to close


def test_a_group_under_load_with_two_crashes(
    server: MariaDb, database: str, tmp_path: Path
) -> None:
    judge(mysql_load.run(server, database, tmp_path, seconds=4))


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_group_under_long_load_with_two_crashes(
    server: MariaDb, database: str, tmp_path: Path
) -> None:
    accounts = mysql_load.run(server, database, tmp_path, seconds=60)
    judge(accounts)
    assert len(accounts.produced) > 10_000
