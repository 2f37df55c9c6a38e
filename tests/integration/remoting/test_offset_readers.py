"""Our broker read by offset, and as a source of Spark: the tests which Apache's pass."""

from __future__ import annotations

import pytest

from support.raw_remoting import Site
from support.rocketmq.reader_checks import *  # noqa: F403 - the tests

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server(ours: Site) -> Site:
    return ours
