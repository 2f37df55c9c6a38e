"""Ids of messages: where a broker keeps one, and what its producer calls it."""

from __future__ import annotations

from struct import Struct

from headrace.errors import MalformedError
from headrace.wire.remoting.hosts import V4_SIZE, V6_SIZE, HostAddress, host_bytes, take_host

_OFFSET = Struct(">q")


def offset_id(store_host: HostAddress, physical_offset: int) -> str:
    """The id a broker gives: its address and its own number of the message, in hex."""
    return (host_bytes(store_host) + _OFFSET.pack(physical_offset)).hex().upper()


def offset_ids(store_host: HostAddress, physical_offset: int, count: int) -> str:
    """The ids of messages that follow each other, joined by commas."""
    place = host_bytes(store_host).hex().upper()
    following = range(physical_offset, physical_offset + count)
    return ",".join([f"{place}{physical:016X}" for physical in following])


def take_offset_id(text: str) -> tuple[HostAddress, int]:
    """Address and number; MalformedError when the text is no such id."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in (V4_SIZE + 8, V6_SIZE + 8):
        raise MalformedError(f"'{text:.64}' is no message id of a broker: 32 or 56 hex digits")
    return take_host(raw[:-8]), _OFFSET.unpack(raw[-8:])[0]
