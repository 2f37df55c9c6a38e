"""One SparkSession for all tests of a run, and a broker of their own for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        message = "no Java: apt-get install openjdk-17-jre-headless"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    from support.spark_lab.sessions import new_session

    session = new_session()
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _quiet_imports() -> Iterator[None]:
    """pyspark warns about what it imports itself; that is not ours to mend."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A session takes a minute to start on a busy machine, and the first test waits for it."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
