"""Errors and their codes."""

from __future__ import annotations

import inspect

import pytest

from headrace import errors
from headrace.wire.native.error_codes import code_of, ends_connection

CLASSES = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, errors.BrokerError)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code(kind: type[errors.BrokerError]) -> None:
    assert code_of(kind("text")).replace("_", "").isalpha()


def test_codes_are_those_of_the_protocol() -> None:
    assert code_of(errors.NotFound("")) == "not_found"
    assert code_of(errors.Unsupported("")) == "not_implemented"
    assert code_of(errors.CommandInvalid("")) == "protocol"


def test_channel_errors_never_end_the_connection() -> None:
    ending = {kind for kind in CLASSES if ends_connection(kind(""))}

    assert not [kind for kind in ending if issubclass(kind, errors.ChannelError)]
    assert errors.CommandInvalid in ending
