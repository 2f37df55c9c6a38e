"""Error classes to HTTP status and the short name in `error`, as RabbitMQ's API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace import errors

INTERNAL_ERROR: Final = (500, "internal_error")
STATUS: Final[Mapping[type[errors.BrokerError], tuple[int, str]]] = {
    errors.LoginRefused: (401, "not_authorized"),
    errors.LoginLocked: (429, "not_authorized"),
    # RabbitMQ replies 401, not 403, to a user without the permission.
    errors.AccessRefused: (401, "not_authorised"),
    errors.NotAllowed: (401, "not_authorised"),
    errors.NotFound: (404, "not_found"),
    errors.PreconditionFailed: (400, "bad_request"),
    errors.ResourceLocked: (400, "bad_request"),
    errors.FrameError: (400, "bad_request"),
    errors.MalformedError: (400, "bad_request"),
    errors.Unsupported: (501, "internal_error"),
    errors.ResourceError: (503, "internal_error"),
    errors.EngineUnavailable: (503, "internal_error"),
    errors.StoreError: (503, "storage_failed"),
    errors.ConnectionForced: INTERNAL_ERROR,
    errors.CommandInvalid: INTERNAL_ERROR,
    errors.ChannelStateError: INTERNAL_ERROR,
    errors.UnexpectedFrame: INTERNAL_ERROR,
    errors.InternalError: INTERNAL_ERROR,
}


def status_of(error: errors.BrokerError) -> tuple[int, str]:
    """Status and short name; a request refused by a handler brings its own."""
    if isinstance(error, errors.HttpRefused):
        return error.status, error.error
    return errors.row_of(STATUS, type(error), INTERNAL_ERROR)
