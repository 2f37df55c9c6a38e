"""What can go wrong in the RocketMQ SDK, one class per thing a program may want to handle."""

from __future__ import annotations

from headrace.wire.remoting.codes import ResponseCode


class RocketMQError(Exception):
    """Base of everything the SDK raises on purpose."""


class ConfigurationError(RocketMQError, ValueError):
    """A setting that cannot be used; nothing was started."""


class InvalidMessageError(RocketMQError, ValueError):
    """A message that no broker would take: topic, size, property names. Nothing was sent."""


class StateError(RocketMQError):
    """The call does not fit the state: not started, shut down, no listener."""


class ForkError(StateError):
    """A producer or consumer is used in a child process that was forked after start()."""


# -- subscriptions ---------------------------------------------------------------------------


class SubscriptionError(RocketMQError):
    """Base of what a SubscriptionManager raises."""


class InvalidTopicError(SubscriptionError, ValueError):
    """A topic name that cannot be subscribed."""


class InvalidSelectorError(SubscriptionError, ValueError):
    """An invalid selector, or an expression that cannot be parsed."""


class TopicNotSubscribedError(SubscriptionError, KeyError):
    """The topic has no subscription that could be changed."""

    def __str__(self) -> str:  # a KeyError would show the text in quotes
        return Exception.__str__(self)


class SubscriptionConflictError(SubscriptionError):
    """The topic is subscribed with another selector."""


class SubscriptionLimitExceededError(SubscriptionError):
    """As many topics are subscribed as the manager may hold."""


# -- the network -----------------------------------------------------------------------------


class RemotingError(RocketMQError):
    """Base of failures between this process and a server: the outcome may be unknown."""


class ConnectError(RemotingError):
    """No connection to the address: nothing was sent."""


class ConnectionLostError(RemotingError):
    """The connection ended before the answer came: the outcome is unknown."""


class RequestTimeoutError(RemotingError, TimeoutError):
    """No answer in time: the outcome is unknown."""


class NameServerError(RemotingError):
    """No name server of the list answers."""


class TopicNotFoundError(RocketMQError):
    """The name server knows no queue of the topic that could be used."""


class BrokerError(RocketMQError):
    """A server answered with an error code of RocketMQ."""

    def __init__(self, code: int, text: str, address: str = "") -> None:
        where = f" from {address}" if address else ""
        super().__init__(f"code {code} ({code_name(code)}){where}: {text}")
        self.code = code
        self.text = text
        self.address = address


class SendError(RocketMQError):
    """A message was not confirmed after every try; `attempts` has the outcome of each."""

    def __init__(self, text: str, attempts: tuple[str, ...] = ()) -> None:
        super().__init__(text if not attempts else f"{text}: {'; '.join(attempts)}")
        self.attempts = attempts


class BodyError(RocketMQError):
    """A message whose body cannot be decompressed: a library is missing, or it is damaged."""


# -- consumers -------------------------------------------------------------------------------


class OffsetStoreError(RocketMQError):
    """Offsets could not be read or written; consumption continues from the stored ones."""


class OffsetFileError(OffsetStoreError):
    """A local offset file is damaged and may not, or cannot, be recovered."""


class MessagesGoneError(RocketMQError):
    """The messages to be read are no longer kept; ``first`` is the offset to continue at."""

    def __init__(self, queue: object, offset: int, first: int) -> None:
        super().__init__(f"{queue}: offsets {offset} to {first - 1} are gone, removed by retention")
        self.first = first


class ListenerError(RocketMQError):
    """A listener that cannot be used, or that returned something else than a ConsumeResult."""


_NAMED = frozenset((1, 2, 3, 13, 14, 16, 17, *range(22, 30), 204, 205, 206, 215, 604, 1500))


def code_name(code: int) -> str:
    """The name of a response code that brokers refuse with; others have none."""
    return ResponseCode(code).name if code in _NAMED else "unknown"
