"""Errors of the client, one class per failure that a program may handle.

The broker names its errors by a stable code; the table here turns a code into a class. The
classes differ from the broker's: they say what happened to a call, not what a session must do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self


class HeadraceError(Exception):
    """Base of everything the client raises on purpose."""

    code: ClassVar[str] = "internal"

    def __init__(self, text: str, code: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        if code is not None:
            self.code = code  # type: ignore[misc]  # a code without a class

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def again(self) -> Self:
        """One to raise now. An exception keeps every place where it was raised, and their
        variables: what ended a connection would grow with each call that fails because of it."""
        copy = type(self)(self.text, self.code)
        copy.__cause__ = self.__cause__
        return copy


# -- reported by the broker ----------------------------------------------------------------------


class NotFound(HeadraceError):
    """No such queue, exchange, binding or unacknowledged message."""

    code = "not_found"


class AccessRefused(HeadraceError):
    """The user may not do this, or the name is reserved."""

    code = "access_refused"


class PreconditionFailed(HeadraceError):
    """It exists with other attributes, is in use, is not empty, or a tag is unknown."""

    code = "precondition_failed"


class ResourceLocked(HeadraceError):
    """The queue belongs to another connection."""

    code = "resource_locked"


class NotAllowed(HeadraceError):
    """Forbidden for the whole connection: unknown vhost, a consumer tag used twice."""

    code = "not_allowed"


class NotImplementedByBroker(HeadraceError):
    """The broker knows the operation and does not offer it."""

    code = "not_implemented"


class LoginRefused(HeadraceError):
    """Wrong user or password, or the user may not connect from this address."""

    code = "login_refused"


class StoreFailed(HeadraceError):
    """The broker could not write to its disk; nothing was confirmed."""

    code = "store"


class ResourceExhausted(HeadraceError):
    """A limit of the broker is reached: size of a message, number of channels."""

    code = "resource"


class ProtocolViolation(HeadraceError):
    """One side sent what the other cannot decode; the connection is closed."""

    code = "protocol"


# -- detected by the client -----------------------------------------------------------------


class ConnectionClosed(HeadraceError):
    """There is no connection, or it ended before the answer came: the outcome is unknown."""

    code = "connection_closed"


class ChannelClosed(HeadraceError):
    """The channel was closed, by this program or by the broker."""

    code = "channel_closed"


class ConsumerCancelled(HeadraceError):
    """The broker ended the consumer, for example because its queue was deleted."""

    code = "consumer_cancelled"


class RequestTimeout(HeadraceError):
    """No answer in time: the outcome is unknown."""

    code = "timeout"


class AlreadySettled(HeadraceError):
    """The delivery was acknowledged or rejected before."""

    code = "already_settled"


_BY_CODE = {one.code: one for one in HeadraceError.__subclasses__()}
_BY_CODE |= {"frame": ProtocolViolation, "syntax": ProtocolViolation}


def error_in(answer: Mapping[str, object]) -> HeadraceError:
    """The exception for a refusal of the broker; an unknown code keeps its name."""
    code = str(answer.get("code", "internal"))
    return _BY_CODE.get(code, HeadraceError)(str(answer.get("text", "")), code)
