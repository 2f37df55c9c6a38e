"""Headrace: a message broker that RabbitMQ clients use unchanged.

Importing this package must stay free of cost: it holds the version; `Broker` is imported when used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.server.embedded import Broker

__all__ = ["Broker"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name != "Broker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = import_module("headrace.server.embedded").Broker
    return value
