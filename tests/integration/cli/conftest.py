"""A broker of its own for each test, and the commands run beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.client import Channel, ConnectionFactory
from headrace.testing import RunningBroker, run_broker


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningBroker]:
    """A broker which the commands find by themselves."""
    with run_broker(sync=False) as broker:
        monkeypatch.setenv("HEADRACE_URL", f"headrace://127.0.0.1:{broker.native_port}")
        monkeypatch.delenv("HEADRACE_PASSWORD", raising=False)
        yield broker


@pytest.fixture
def channel(site: RunningBroker) -> Iterator[Channel]:
    """A channel of the test's own."""
    with ConnectionFactory(port=site.native_port or 0).new_connection() as connection:
        yield connection.create_channel()
