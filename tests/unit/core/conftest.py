"""Fixtures of the core's unit tests."""

from __future__ import annotations

import pytest

from support.fake_loop import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
