"""Fixtures of the tests about users and permissions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing import run_broker
from support.access_matrix import Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with run_broker(sync=False) as running:
        yield Site(running)
