"""Errors as native peers read them: the one place that knows their codes."""

from __future__ import annotations

from headrace import errors

_CODES: dict[type[errors.BrokerError], str] = {
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
# After these nobody can say what the peer means, or what we do.
_ENDS_CONNECTION = (
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
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return "internal"


def ends_connection(error: errors.BrokerError) -> bool:
    return isinstance(error, _ENDS_CONNECTION)
