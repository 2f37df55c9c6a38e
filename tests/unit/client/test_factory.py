"""The factory's settings as attributes."""

from __future__ import annotations

import copy

import pytest

from headrace.client import ConnectionFactory
from headrace.client import connection as module


@pytest.fixture
def connected_to(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Where connections were opened, without any."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(module, "Connection", lambda one: found.append((one.host, one.port)))
    return found


def test_attributes_are_read_when_a_connection_is_made(
    connected_to: list[tuple[str, int]],
) -> None:
    factory = ConnectionFactory()
    factory.host = "elsewhere"
    factory.port = 1234
    factory.new_connection()
    factory.port = 4321
    factory.new_connection()

    assert connected_to == [("elsewhere", 1234), ("elsewhere", 4321)]
    assert (factory.host, factory.vhost, factory.settings.port) == ("elsewhere", "/", 4321)


def test_an_unknown_attribute_is_refused_and_the_known_ones_are_named() -> None:
    factory = ConnectionFactory()
    with pytest.raises(
        AttributeError,
        match=r"unknown setting 'hostname' .* host, port, user",
    ):
        factory.hostname = "elsewhere"
    with pytest.raises(AttributeError, match="unknown setting 'hostname'"):
        factory.hostname  # noqa: B018 - the access is what is tested


def test_a_copy_of_a_factory_has_settings_of_its_own() -> None:
    factory = ConnectionFactory.from_url("headrace://u:p@h:1/v")
    other = copy.copy(factory)
    other.port = 2

    assert (factory.port, other.port, other.user) == (1, 2, "u")
