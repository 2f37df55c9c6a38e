"""The MariaDB of the tests: without one they are skipped, and fail where nothing may be missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.testing.mariadb import MISSING, MYSQLD, PASSWORD, MariaDb, find_server, prepare

__all__ = ["MYSQLD", "PASSWORD", "MariaDb", "prepared"]


def prepared(directory: Path, *options: str) -> MariaDb:
    """A running server of one's own."""
    if find_server() is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return prepare(directory, *options)
