"""Fixtures of the RocketMQ tests: a broker of ours, talked to with a bare socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import run_broker
from support.remoting_broker import Ours


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)
