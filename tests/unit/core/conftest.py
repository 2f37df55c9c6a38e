"""Fixtures of the core's unit tests."""

from __future__ import annotations

import pytest

from unit.core.stage import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
