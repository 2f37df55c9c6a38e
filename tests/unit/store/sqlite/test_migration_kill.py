"""A process that dies while it brings meta.db up to date: the next one takes up the steps."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import headrace
from headrace.store.api.rows import ExchangeRow
from headrace.store.sqlite import SqliteMetadata
from headrace.store.sqlite.schema import MIGRATIONS, migrate, schema_version

OPEN = "import sys, pathlib; from headrace.store.sqlite import SqliteMetadata as M; \
M(pathlib.Path(sys.argv[1])).load()"
OLD = 3  # steps that the file has taken


@pytest.mark.parametrize("moment", ["metadata.migrate", "metadata.migrated"])
@pytest.mark.parametrize("passage", range(1, len(MIGRATIONS) - OLD + 1))
def test_a_death_between_two_steps_of_the_schema_changes_nothing(
    tmp_path: Path, moment: str, passage: int
) -> None:
    with closing(sqlite3.connect(tmp_path / "meta.db", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:OLD])
        connection.execute("INSERT INTO vhosts VALUES (x'2f')")
        connection.execute("INSERT INTO exchanges VALUES (x'2f', x'65', x'74', 1, 0, x'00000000')")
    source = str(Path(headrace.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, "HEADRACE_FAILPOINT": f"{moment}:{passage}"}

    died = subprocess.run([sys.executable, "-c", OPEN, str(tmp_path)], env=env, check=False)

    assert died.returncode == -9
    with closing(sqlite3.connect(tmp_path / "meta.db")) as connection:
        assert schema_version(connection) == OLD + passage - (moment == "metadata.migrate")
    store = SqliteMetadata(tmp_path)
    found = store.load()
    store.close()
    assert (found.vhosts, found.damaged) == (["/"], [])
    assert found.exchanges == [ExchangeRow("/", "e", "t", True)]
