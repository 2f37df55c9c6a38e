"""Types of the fixtures, for the tests to be annotated with."""

from collections.abc import Callable

from pika import BlockingConnection as Connection
from pika.adapters.blocking_connection import BlockingChannel as Channel

from support.raw_amqp import RawChannel, RawClient

Namer = Callable[..., str]
Connect = Callable[..., Connection]
RawConnect = Callable[..., RawClient]

__all__ = ["Channel", "Connect", "Connection", "Namer", "RawChannel", "RawClient", "RawConnect"]
