"""Sessions of the page: found, idle, over, too many."""

from __future__ import annotations

import pytest

from headrace.model.passwords import NO_PASSWORD
from headrace.server.http.auth import (
    IDLE_SECONDS,
    MAX_PER_USER,
    MAX_SECONDS,
    MAX_SESSIONS,
    PageSessions,
)


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def sessions(time: Time) -> PageSessions:
    return PageSessions(time)


def test_a_session_is_found_by_its_token_alone(sessions: PageSessions) -> None:
    token, session = sessions.begin("ann", NO_PASSWORD)
    assert sessions.find(token) is session
    assert sessions.find(token + "x") is None
    assert sessions.find("") is None
    assert session.matches(session.csrf)
    assert not session.matches("")
    assert not session.matches("\udc80")
    sessions.end(token)
    assert sessions.find(token) is None


def test_use_keeps_a_session_alive_up_to_its_limit(sessions: PageSessions, time: Time) -> None:
    token, _ = sessions.begin("ann", NO_PASSWORD)
    begun = time.now
    while time.now - begun < MAX_SECONDS - 1:
        assert sessions.find(token) is not None
        time.now = min(time.now + IDLE_SECONDS - 1, begun + MAX_SECONDS - 1)
    time.now = begun + MAX_SECONDS
    assert sessions.find(token) is None


def test_an_idle_session_ends(sessions: PageSessions, time: Time) -> None:
    token, _ = sessions.begin("ann", NO_PASSWORD)
    time.now += IDLE_SECONDS
    assert sessions.find(token) is None
    assert len(sessions) == 0


def test_there_are_never_too_many(sessions: PageSessions) -> None:
    first, _ = sessions.begin("zoe", NO_PASSWORD)
    for _ in range(MAX_PER_USER + 5):
        sessions.begin("ann", NO_PASSWORD)
    assert len(sessions) == MAX_PER_USER + 1
    assert sessions.find(first) is not None
    for number in range(MAX_SESSIONS):
        sessions.begin(f"user{number}", NO_PASSWORD)
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(first) is None
