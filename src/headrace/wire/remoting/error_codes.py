"""Error classes to RocketMQ response codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace import errors
from headrace.wire.remoting.codes import ResponseCode

CODES: Final[Mapping[type[errors.BrokerError], ResponseCode]] = {
    errors.AccessRefused: ResponseCode.NO_PERMISSION,
    errors.LoginRefused: ResponseCode.NO_PERMISSION,
    errors.NotAllowed: ResponseCode.NO_PERMISSION,
    errors.NoSuchTopic: ResponseCode.TOPIC_NOT_EXIST,
    errors.NoSuchGroup: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    errors.SubscriptionUnknown: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    errors.NotFound: ResponseCode.QUERY_NOT_FOUND,
    errors.SelectorError: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    errors.BodyTooLarge: ResponseCode.MESSAGE_ILLEGAL,
    errors.MessageIllegal: ResponseCode.MESSAGE_ILLEGAL,
    errors.MalformedError: ResponseCode.INVALID_PARAMETER,
    errors.PreconditionFailed: ResponseCode.INVALID_PARAMETER,
    errors.ResourceError: ResponseCode.SYSTEM_BUSY,
    errors.EngineUnavailable: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.StoreError: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.ConnectionForced: ResponseCode.GO_AWAY,
    errors.Unsupported: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    errors.FrameError: ResponseCode.SYSTEM_ERROR,
    errors.CommandInvalid: ResponseCode.SYSTEM_ERROR,
    errors.ChannelStateError: ResponseCode.SYSTEM_ERROR,
    errors.UnexpectedFrame: ResponseCode.SYSTEM_ERROR,
    errors.InternalError: ResponseCode.SYSTEM_ERROR,
    errors.ResourceLocked: ResponseCode.SYSTEM_ERROR,
}


def code_of(error: errors.BrokerError) -> ResponseCode:
    """The code of the error, or of the nearest kind that has one."""
    return errors.row_of(CODES, type(error), ResponseCode.SYSTEM_ERROR)
