"""Fixtures of the AMQP session's unit tests."""

from __future__ import annotations

import pytest

from headrace.server.amqp.channel import Channel
from unit.core.stage import Stage
from unit.server.amqp.desk import Desk


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def desk(stage: Stage) -> Desk:
    return Desk(stage)


@pytest.fixture
def channel(desk: Desk) -> Channel:
    return Channel(desk.session, 7)
