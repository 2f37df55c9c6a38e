"""Error classes to AMQP reply codes and names; codes and texts are those of RabbitMQ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace import errors

INTERNAL_ERROR: Final = (541, "INTERNAL_ERROR")
REPLY_CODES: Final[Mapping[type[errors.BrokerError], tuple[int, str]]] = {
    errors.ConnectionForced: (320, "CONNECTION_FORCED"),
    errors.LoginRefused: (403, "ACCESS_REFUSED"),
    errors.AccessRefused: (403, "ACCESS_REFUSED"),
    errors.NotFound: (404, "NOT_FOUND"),
    errors.ResourceLocked: (405, "RESOURCE_LOCKED"),
    errors.PreconditionFailed: (406, "PRECONDITION_FAILED"),
    errors.FrameError: (501, "FRAME_ERROR"),
    errors.MalformedError: (502, "SYNTAX_ERROR"),
    errors.CommandInvalid: (503, "COMMAND_INVALID"),
    errors.ChannelStateError: (504, "CHANNEL_ERROR"),
    errors.UnexpectedFrame: (505, "UNEXPECTED_FRAME"),
    errors.ResourceError: (506, "RESOURCE_ERROR"),
    errors.EngineUnavailable: (506, "RESOURCE_ERROR"),
    errors.NotAllowed: (530, "NOT_ALLOWED"),
    errors.Unsupported: (540, "NOT_IMPLEMENTED"),
    errors.InternalError: INTERNAL_ERROR,
    errors.StoreError: INTERNAL_ERROR,
}


def reply_of(error: errors.BrokerError) -> tuple[int, str]:
    """Code and text (`NAME - explanation`) of a close method."""
    code, name = errors.row_of(REPLY_CODES, type(error), INTERNAL_ERROR)
    return code, f"{name} - {error}"
