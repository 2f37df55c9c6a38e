"""Every error that a session can report has a code in each protocol."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest

from headrace import errors
from headrace.server.http.error_codes import STATUS
from headrace.wire.amqp.error_codes import REPLY_CODES
from headrace.wire.native.error_codes import CODES
from headrace.wire.remoting.error_codes import CODES as RESPONSE_CODES

# A handler of the HTTP API names its status; settings and commands are no matter of a session.
_NOT_REPORTED = (errors.HttpRefused, errors.ConfigError, errors.CommandFailed)
_BASES = (errors.BrokerError, errors.FatalError, errors.ChannelError)
REPORTED = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.BrokerError)
    and kind not in _BASES
    and not issubclass(kind, _NOT_REPORTED)
]


@pytest.mark.parametrize("table", [REPLY_CODES, CODES, RESPONSE_CODES, STATUS])
def test_every_error_class_or_an_ancestor_has_a_row(
    table: Mapping[type[errors.BrokerError], object],
) -> None:
    without = [kind.__name__ for kind in REPORTED if not set(kind.__mro__) & set(table)]
    assert without == []
    assert not set(_BASES) & set(table)  # such a row would hide a class without one


def test_the_nearest_ancestor_with_a_row_decides() -> None:
    assert errors.row_of(STATUS, errors.LoginLocked, (0, ""))[0] == 429
    assert errors.row_of(STATUS, errors.ClaimLost, (0, ""))[0] == 400
    assert errors.row_of(CODES, errors.ConfigError, "none") == "none"
