"""Errors of the broker: one class for each thing that can be reported to a client.

The class decides the consequence (a channel closes, a connection closes) and carries the
codes of each protocol; only sessions translate.
"""

from __future__ import annotations

from typing import ClassVar


class BrokerError(Exception):
    """Base of all deliberate errors; anything else that escapes is a bug."""

    amqp_code: ClassVar[int] = 541
    amqp_name: ClassVar[str] = "INTERNAL_ERROR"
    http_status: ClassVar[int] = 500

    @property
    def reply_text(self) -> str:
        """What an AMQP peer reads: `CODE_NAME - explanation`."""
        return f"{self.amqp_name} - {self}"


# -- errors that end the connection ---------------------------------------------------------


class FatalError(BrokerError):
    """The connection must close."""


class ConnectionForced(FatalError):
    """An operator or a shutdown closes the connection."""

    amqp_code = 320
    amqp_name = "CONNECTION_FORCED"


class LoginRefused(FatalError):
    """Wrong credentials, or credentials that are not welcome from that address."""

    amqp_code = 403
    amqp_name = "ACCESS_REFUSED"
    http_status = 401


class LoginLocked(LoginRefused):
    """Not looked at: too many failures before, or too many logins at once."""

    http_status = 429


class FrameError(FatalError):
    """The peer sent bytes that are not a legal frame."""

    amqp_code = 501
    amqp_name = "FRAME_ERROR"
    http_status = 400


class MalformedError(FatalError):
    """A legal frame whose payload cannot be decoded."""

    amqp_code = 502
    amqp_name = "SYNTAX_ERROR"
    http_status = 400


class CommandInvalid(FatalError):
    """A method that makes no sense in the present state."""

    amqp_code = 503
    amqp_name = "COMMAND_INVALID"


class ChannelStateError(FatalError):
    """A method on a channel that is not open, or that is open already."""

    amqp_code = 504
    amqp_name = "CHANNEL_ERROR"


class UnexpectedFrame(FatalError):
    """A frame of the wrong kind for the state of its channel."""

    amqp_code = 505
    amqp_name = "UNEXPECTED_FRAME"


class ResourceError(FatalError):
    """The peer would make us hold more than its share."""

    amqp_code = 506
    amqp_name = "RESOURCE_ERROR"
    http_status = 503


class NotAllowed(FatalError):
    """Forbidden for the whole connection: unknown vhost, too many channels, a reused tag."""

    amqp_code = 530
    amqp_name = "NOT_ALLOWED"
    http_status = 403


class Unsupported(FatalError):
    """A part of the protocol that is deliberately left out."""

    amqp_code = 540
    amqp_name = "NOT_IMPLEMENTED"
    http_status = 501


class InternalError(FatalError):
    """A value no decoder knows, or a bug of ours."""


# -- errors that end the channel ------------------------------------------------------------


class ChannelError(BrokerError):
    """Only the channel closes; the connection lives on."""


class AccessRefused(ChannelError):
    amqp_code = 403
    amqp_name = "ACCESS_REFUSED"
    http_status = 403


class NotFound(ChannelError):
    amqp_code = 404
    amqp_name = "NOT_FOUND"
    http_status = 404


class ResourceLocked(ChannelError):
    """The queue belongs to another connection."""

    amqp_code = 405
    amqp_name = "RESOURCE_LOCKED"
    http_status = 409


class PreconditionFailed(ChannelError):
    amqp_code = 406
    amqp_name = "PRECONDITION_FAILED"
    http_status = 400


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
    """The queue or topic was deleted and made again: these are not the messages that were meant."""


# -- topics ----------------------------------------------------------------------------------


class NoSuchTopic(NotFound):
    """The topic does not exist."""


class BadTopicName(PreconditionFailed):
    """A name that cannot become the name of a topic; nothing was changed."""


class BadTopicValue(PreconditionFailed):
    """An invalid priority, token, key, address or position; nothing was changed."""


class BodyTooLarge(PreconditionFailed):
    """A message above the limit of the engine; refused before anything was sent."""


class TopicConflict(PreconditionFailed):
    """The topic is there already, with other settings."""


class ClaimLost(PreconditionFailed):
    """The claim has expired or belongs to another reader: its messages are delivered again."""


class EngineUnavailable(ChannelError):
    """The engine of the topic cannot be reached; what was asked was not done, or, where the text
    says so, may have been done."""

    amqp_code = 506
    amqp_name = "RESOURCE_ERROR"
    http_status = 503

    is_denied = False
    """It is there and does not let us in: waiting does not help, other settings do."""


# -- errors at start -------------------------------------------------------------------------


class ConfigError(BrokerError):
    """A setting that cannot be used; the broker does not start."""


class StoreError(BrokerError):
    """The storage engine could not keep its promise."""


# -- errors of commands ----------------------------------------------------------------------


class CommandFailed(BrokerError):
    """A command failed; its text says why and what to do."""
