"""Our broker answers as Apache's do: the tests which those pass."""

from __future__ import annotations

import pytest
from conversations import *  # noqa: F403 - the tests
from link import Site

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def server(ours: Site) -> Site:
    return ours
