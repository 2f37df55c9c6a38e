"""One SparkSession for all tests of a run, and a broker of their own for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.spark_lab import sessions

HERE = Path(__file__).parent


# Tests that read from a broker run with the jar, and in `make spark` with the Python source too.
READING = ("test_batch_reads", "test_batches", "test_data_loss", "test_version_1")
SOURCES = ["jar", pytest.param("python", marks=pytest.mark.spark)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "spark" in metafunc.fixturenames and metafunc.module.__name__.endswith(READING):
        metafunc.parametrize("spark", SOURCES, indirect=True)


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    session = _session()
    with sessions.reading_by(session, getattr(request, "param", "jar")):
        yield session


def _session() -> Any:  # noqa: ANN401 - pyspark's own
    if shutil.which("java") is None:
        message = "no Java: apt-get install openjdk-17-jre-headless"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return sessions.shared_session()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Tests of other folders must not find the threads and sockets of Spark in their process."""
    if nextitem is None or HERE not in nextitem.path.parents:
        sessions.end_shared_session()


@pytest.fixture(autouse=True)
def _quiet_imports() -> Iterator[None]:
    """pyspark warns about what it imports itself; that is not ours to mend."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A session takes a minute to start on a busy machine, and the first test waits for it."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
