"""Topics on other databases than one MariaDB: MySQL 8.0, Group Replication, a Galera cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.testing import wait_for
from headrace.testing.mariadb import MYSQLD
from support import cluster_ledger
from support.mysql_server import is_primary, mysqld, run_group

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]
TESTS = Path(__file__).parents[1]


def run_tests(*arguments: str, **variables: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:randomly", *arguments]
    done = subprocess.run(
        command,
        cwd=TESTS.parent,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def test_contract_and_ledgers_on_mysql() -> None:
    """All tests of topics in a database, the upgrade of version 1 included."""
    run_tests(
        "-m", "not chaos and not interop and not spark",
        "tests/integration/mysql", "tests/contract/topics",
        **{MYSQLD: mysqld()},
    )  # fmt: skip


def test_ledgers_on_galera() -> None:
    """Twenty seeds; nodes killed, stopped and cut off."""
    run_tests("-n", "0", "tests/integration/mysql/test_cluster.py")


@pytest.mark.parametrize("is_quick", [False, True])
def test_the_primary_of_a_group_is_killed(is_quick: bool) -> None:
    """With a list of hosts and no router, all settings of the group as they are by default."""
    with run_group() as group:
        group.nodes[0].create_database("ledger")

        def kill() -> None:
            begun = time.monotonic()
            group.nodes[0].kill()
            wait_for(lambda: any(map(is_primary, group.nodes[1:])), timeout=120, interval=0.1)
            print(f"a new primary after {time.monotonic() - begun:.1f} s")  # noqa: T201
            time.sleep(3)

        url = group.url("ledger", timeout=10, connect_timeout=50)
        accounts = cluster_ledger.run(
            [url] * 3, seed=1, appends=3000, accident=kill, append_mode="auto", is_quick=is_quick
        )
        print(accounts)  # noqa: T201
        accounts.check()
