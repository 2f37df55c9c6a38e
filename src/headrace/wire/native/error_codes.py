"""Error classes to the code names of the native protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace import errors

CODES: Final[Mapping[type[errors.BrokerError], str]] = {
    errors.ConnectionForced: "connection_forced",
    errors.LoginRefused: "login_refused",
    errors.FrameError: "frame",
    errors.MalformedError: "syntax",
    errors.CommandInvalid: "protocol",
    errors.ChannelStateError: "protocol",
    errors.UnexpectedFrame: "protocol",
    errors.ResourceError: "resource",
    errors.NotAllowed: "not_allowed",
    errors.Unsupported: "not_implemented",
    errors.InternalError: "internal",
    errors.AccessRefused: "access_refused",
    errors.NotFound: "not_found",
    errors.ResourceLocked: "resource_locked",
    errors.PreconditionFailed: "precondition_failed",
    errors.DataLost: "data_lost",
    errors.SourceChanged: "source_changed",
    errors.NoSuchTopic: "no_such_topic",
    errors.BadTopicName: "bad_topic_name",
    errors.BadTopicValue: "bad_topic_value",
    errors.BodyTooLarge: "body_too_large",
    errors.TopicConflict: "topic_conflict",
    errors.ClaimLost: "claim_lost",
    errors.EngineUnavailable: "engine_unavailable",
    errors.StoreError: "store",
}
# After these the state of the connection is unknown to one of the two sides.
ENDS_CONNECTION = (
    errors.ConnectionForced,
    errors.LoginRefused,
    errors.FrameError,
    errors.CommandInvalid,
    errors.ChannelStateError,
    errors.UnexpectedFrame,
    errors.InternalError,
)


def code_of(error: errors.BrokerError) -> str:
    """The stable name of the error."""
    return errors.row_of(CODES, type(error), "internal")


def ends_connection(error: errors.BrokerError) -> bool:
    return isinstance(error, ENDS_CONNECTION)
