"""Fixtures of the restart tests: a broker that is ended and started again on its directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.recovery_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A running broker with nothing in it."""
    with Site(tmp_path / "broker") as site:
        site.node.start()
        yield site
