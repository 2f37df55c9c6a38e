"""Both clients offer the same calls with the same parameters."""

from __future__ import annotations

import inspect
import re

import pytest

from headrace.client import aio, channel, connection
from headrace.client.aio import channel as aio_channel
from headrace.client.aio import connection as aio_connection

# Blocking only: a future per request, and what a closing connection needs.
BLOCKING_ONLY = {"publish_batch_async", "send_close"}
# asyncio only: opened by `await connect()`, and waiting for room in the socket.
ASYNC_ONLY = {"open", "room"}
NAMES = {"within": "timeout"}  # of an internal call; a coroutine should have no `timeout`


def calls(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def plain(signature: inspect.Signature) -> tuple[list[str], str]:
    """Parameters with kinds and defaults, and what comes back, without the words of asyncio."""
    found = [
        f"{one.kind.name} {NAMES.get(name, name)}: {one.annotation} = {one.default}"
        for name, one in signature.parameters.items()
        if name != "self"
    ]
    returned = re.sub(r"\bAsync(?=Iterator)|\basyncio\.", "", str(signature.return_annotation))
    return found, returned


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [
        (channel.Channel, aio_channel.Channel),
        (connection.Connection, aio_connection.Connection),
    ],
)
def test_both_faces_have_the_same_calls(blocking: type, asynchronous: type) -> None:
    here, there = calls(blocking), calls(asynchronous)
    assert set(here) - BLOCKING_ONLY == set(there) - ASYNC_ONLY
    for name in set(here) & set(there):
        assert plain(here[name]) == plain(there[name]), name


def test_settings_are_given_to_both_clients_in_the_same_way() -> None:
    blocking = inspect.signature(connection.ConnectionFactory.__init__)
    asynchronous = inspect.signature(aio.connect)
    assert plain(blocking)[0] == plain(asynchronous)[0]


def test_calls_are_documented_with_the_result_and_not_the_request() -> None:
    for face in (channel.Channel, aio_channel.Channel):
        for name, result in (("queue_declare", "QueueInfo"), ("basic_ack", "None")):
            call = getattr(face, name)
            assert inspect.signature(call).return_annotation == result
            assert call.__name__ == name
            assert call.__doc__
            assert inspect.iscoroutinefunction(call) is (face is aio_channel.Channel)
