"""Errors as RocketMQ clients read them: the one place that knows their codes."""

from __future__ import annotations

from headrace import errors
from headrace.wire.remoting.codes import ResponseCode

_CODES: dict[type[errors.BrokerError], ResponseCode] = {
    errors.AccessRefused: ResponseCode.NO_PERMISSION,
    errors.LoginRefused: ResponseCode.NO_PERMISSION,
    errors.NotAllowed: ResponseCode.NO_PERMISSION,
    errors.NoSuchTopic: ResponseCode.TOPIC_NOT_EXIST,
    errors.NotFound: ResponseCode.QUERY_NOT_FOUND,
    errors.SelectorError: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    errors.BodyTooLarge: ResponseCode.MESSAGE_ILLEGAL,
    errors.MalformedError: ResponseCode.INVALID_PARAMETER,
    errors.PreconditionFailed: ResponseCode.INVALID_PARAMETER,
    errors.ResourceError: ResponseCode.SYSTEM_BUSY,
    errors.EngineUnavailable: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.StoreError: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.ConnectionForced: ResponseCode.GO_AWAY,
    errors.Unsupported: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
}


def code_of(error: errors.BrokerError) -> ResponseCode:
    """The code of the error, or of the nearest kind that has one."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ResponseCode.SYSTEM_ERROR
