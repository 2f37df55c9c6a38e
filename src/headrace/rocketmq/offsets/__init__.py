"""Where a group has come to: in the brokers, or in a local file."""

from headrace.rocketmq.offsets.local import LocalOffsetStore
from headrace.rocketmq.offsets.offset_store import OffsetEntry, OffsetStore
from headrace.rocketmq.offsets.remote import OffsetGateway, RemoteOffsetStore

__all__ = [
    "LocalOffsetStore",
    "OffsetEntry",
    "OffsetGateway",
    "OffsetStore",
    "RemoteOffsetStore",
]
