"""Fixtures of the restart tests: a broker that is ended and started again on its directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from site_under_test import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A running broker with nothing in it."""
    with Site(tmp_path / "broker") as site:
        site.node.start()
        yield site
