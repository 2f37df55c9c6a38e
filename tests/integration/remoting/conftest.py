"""Fixtures of the RocketMQ tests: a broker of ours, talked to with a bare socket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "interop"))
sys.path.insert(0, str(Path(__file__).parents[2] / "interop" / "rocketmq"))

from ours import Ours

from headrace.testing import run_broker


@pytest.fixture(scope="module")
def ours() -> Iterator[Ours]:
    with run_broker(sync=False) as broker:
        yield Ours(broker)
