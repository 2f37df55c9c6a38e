"""Our broker answers as Apache's do: the tests which those pass."""

from __future__ import annotations

import pytest

from support.raw_remoting import Site
from support.rocketmq.protocol_checks import *  # noqa: F403 - the tests

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def server(ours: Site) -> Site:
    return ours
