"""Errors of the broker: one class for each condition that can be reported to a client.

The class decides the consequence: a channel closes, or the connection does. Each protocol has a
table of its codes: wire/*/error_codes and server/http/error_codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class BrokerError(Exception):
    """Base of all deliberate errors; anything else that escapes is a bug."""


def row_of(table: Mapping[type[BrokerError], T], kind: type[BrokerError], default: T) -> T:
    """The row of an error class in a table of codes, or of the nearest ancestor with one."""
    return next((table[one] for one in kind.__mro__ if one in table), default)


# -- errors that end the connection ---------------------------------------------------------


class FatalError(BrokerError):
    """The connection must close."""


class ConnectionForced(FatalError):
    """An operator or a shutdown closes the connection."""


class LoginRefused(FatalError):
    """Wrong credentials, or credentials that are not welcome from that address."""


class LoginLocked(LoginRefused):
    """Refused unchecked: too many failures before, or too many logins at once."""


class FrameError(FatalError):
    """The peer sent bytes that are not a legal frame."""


class MalformedError(FatalError):
    """A legal frame whose payload cannot be decoded."""


class CommandInvalid(FatalError):
    """A method that makes no sense in the present state."""


class ChannelStateError(FatalError):
    """A method on a channel that is not open, or that is open already."""


class UnexpectedFrame(FatalError):
    """A frame of the wrong kind for the state of its channel."""


class ResourceError(FatalError):
    """The peer would make us hold more than its share."""


class NotAllowed(FatalError):
    """Forbidden for the whole connection: unknown vhost, too many channels, a reused tag."""


class Unsupported(FatalError):
    """A part of the protocol that is deliberately left out."""


class InternalError(FatalError):
    """A value no decoder knows, or a bug of ours."""


# -- errors that end the channel ------------------------------------------------------------


class ChannelError(BrokerError):
    """Only the channel closes; the connection stays open."""


class AccessRefused(ChannelError):
    """The user lacks a permission."""


class NotFound(ChannelError):
    """A vhost, exchange, queue, topic or message does not exist."""


class ResourceLocked(ChannelError):
    """The queue belongs to another connection."""


class PreconditionFailed(ChannelError):
    """A value is invalid, or conflicts with the present state."""


class SelectorError(PreconditionFailed):
    """An expression that chooses messages cannot be understood; nothing was subscribed.

    ``column`` says where, counted from 1; 0 when it is wrong as a whole.
    """

    def __init__(self, text: str, column: int = 0) -> None:
        super().__init__(f"column {column}: {text}" if column else text)
        self.column = column


# -- errors of the HTTP API ------------------------------------------------------------------


class HttpRefused(BrokerError):
    """A request of the HTTP API that cannot be answered as asked."""

    def __init__(self, reason: str, status: int = 400, error: str = "bad_request") -> None:
        super().__init__(reason)
        self.status = status
        self.error = error  # the short name that tools look at


# -- readers by offset -----------------------------------------------------------------------


class DataLost(PreconditionFailed):
    """Messages that had to be read are gone; nothing was read."""


class SourceChanged(PreconditionFailed):
    """The queue or topic was deleted and created again: these are other messages."""


# -- topics ----------------------------------------------------------------------------------


class NoSuchTopic(NotFound):
    """The topic does not exist."""


class SubscriptionUnknown(NotFound):
    """A RocketMQ client pulls before its heartbeat has said what it wants, or after a change."""


class NoSuchGroup(NotFound):
    """The consumer group does not exist."""


class BadTopicName(PreconditionFailed):
    """A name that cannot become the name of a topic; nothing was changed."""


class BadTopicValue(PreconditionFailed):
    """An invalid priority, token, key, address or position; nothing was changed."""


class BodyTooLarge(PreconditionFailed):
    """A message above the limit of the engine; refused before anything was sent."""


class MessageIllegal(PreconditionFailed):
    """A message whose properties cannot be kept, or contradict each other; it was not stored."""


class TopicConflict(PreconditionFailed):
    """The topic already exists, with other settings."""


class ClaimLost(PreconditionFailed):
    """The claim has expired or belongs to another reader: its messages are delivered again."""


class EngineUnavailable(ChannelError):
    """The engine of the topic cannot be reached; what was asked was not done, or, where the text
    says so, may have been done."""

    is_denied = False
    """The server refuses the login: waiting does not help, other settings do."""


# -- errors at start -------------------------------------------------------------------------


class ConfigError(BrokerError):
    """A setting that cannot be used; the broker does not start."""


class StoreError(BrokerError):
    """The storage engine could not keep its promise."""


# -- errors of commands ----------------------------------------------------------------------


class CommandFailed(BrokerError):
    """A command failed; its text says why and what to do."""
