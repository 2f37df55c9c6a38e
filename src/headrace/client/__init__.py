"""The Python client of the native protocol: blocking here, asyncio in `headrace.client.aio`."""

from headrace.client.channel import Channel
from headrace.client.connection import Connection, ConnectionFactory
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
    PreconditionFailed,
    RequestTimeout,
    ResourceLocked,
)
from headrace.client.ledger import Delivery
from headrace.client.operations import QueueInfo
from headrace.client.properties import BasicProperties
from headrace.client.settings import ExchangeType, OnFailure, Settings

__all__ = [
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
    "OnFailure",
    "PreconditionFailed",
    "QueueInfo",
    "RequestTimeout",
    "ResourceLocked",
    "Settings",
]
