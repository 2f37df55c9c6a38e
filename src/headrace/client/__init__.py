"""The Python client of the native protocol: blocking here, asyncio in `headrace.client.aio`."""

from headrace.client.channel import Channel
from headrace.client.connection import Connection, ConnectionFactory
from headrace.client.core.requests import REPLY_TO, QueueInfo
from headrace.client.core.unsettled import Delivery
from headrace.client.errors import (
    AccessRefused,
    AlreadySettled,
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    HeadraceError,
    LoginRefused,
    NotAllowed,
    NotFound,
    NotImplementedByBroker,
    PreconditionFailed,
    ProtocolViolation,
    RequestTimeout,
    ResourceExhausted,
    ResourceLocked,
    StoreFailed,
)
from headrace.client.properties import BasicProperties
from headrace.client.settings import ExchangeType, OnFailure, Settings

__all__ = [
    "REPLY_TO",
    "AccessRefused",
    "AlreadySettled",
    "BasicProperties",
    "Channel",
    "ChannelClosed",
    "Connection",
    "ConnectionClosed",
    "ConnectionFactory",
    "ConsumerCancelled",
    "Delivery",
    "ExchangeType",
    "HeadraceError",
    "LoginRefused",
    "NotAllowed",
    "NotFound",
    "NotImplementedByBroker",
    "OnFailure",
    "PreconditionFailed",
    "ProtocolViolation",
    "QueueInfo",
    "RequestTimeout",
    "ResourceExhausted",
    "ResourceLocked",
    "Settings",
    "StoreFailed",
]
