"""Fixtures of the AMQP session's unit tests."""

from __future__ import annotations

import pytest

from headrace.server.amqp.channel import Channel
from support.fake_loop import Stage
from support.fake_session import Desk


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def desk(stage: Stage) -> Desk:
    return Desk(stage)


@pytest.fixture
def channel(desk: Desk) -> Channel:
    return Channel(desk.session, 7)
