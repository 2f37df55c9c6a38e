"""The pytest plugin: fixtures that give a test its own broker, or share one.

Nothing of the broker is imported before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import RunningBroker

pytest.register_assert_rewrite("headrace.testing.topic_engine_contract")

MARKER = "headrace(**options): what run_broker() gets for this test's headrace_broker"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def headrace_options() -> Mapping[str, object]:
    """What run_broker() gets; override it in conftest.py to change it for all tests."""
    return {}


@pytest.fixture
def headrace_broker(
    request: pytest.FixtureRequest, headrace_options: Mapping[str, object]
) -> Iterator[RunningBroker]:
    """A broker for this test alone: free ports, empty, gone afterwards."""
    options = dict(headrace_options)
    # The closest marker comes first and must win.
    for marker in reversed(list(request.node.iter_markers("headrace"))):
        options |= marker.kwargs
    yield from _running(options)


@pytest.fixture(scope="session")
def headrace_broker_session(headrace_options: Mapping[str, object]) -> Iterator[RunningBroker]:
    """One broker for the whole run: use names of your own, and leave nothing behind."""
    yield from _running(headrace_options)


def _running(options: Mapping[str, object]) -> Iterator[RunningBroker]:
    from headrace.testing.broker import run_broker

    with run_broker(**options) as broker:  # type: ignore[arg-type]  # users' options, checked there
        yield broker
