"""Apache's RocketMQ, new and old, read by offset and as a source of Spark."""

from __future__ import annotations

import pytest

from support.raw_remoting import Site
from support.rocketmq.reader_checks import *  # noqa: F403 - the tests

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(params=["apache", "old_apache"])
def server(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found
