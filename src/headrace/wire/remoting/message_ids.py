"""Ids of messages, and the addresses in them: 4 or 16 bytes and an int32 port."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, ip_address
from struct import Struct
from typing import NamedTuple

from headrace.errors import MalformedError

_PORT = Struct(">i")
V4_SIZE = 8
V6_SIZE = 20


class HostAddress(NamedTuple):
    """A numeric address and a port."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if self.is_v6 else f"{self.address}:{self.port}"

    @property
    def is_v6(self) -> bool:
        return ":" in self.address


NOWHERE = HostAddress("0.0.0.0", 0)


@lru_cache(4096)
def host_bytes(host: HostAddress) -> bytes:
    """8 bytes, or 20 for IPv6; MalformedError for a name or a port out of range."""
    try:
        packed = ip_address(host.address).packed
    except ValueError:
        raise MalformedError(f"'{host.address:.64}' is no numeric address") from None
    if not 0 <= host.port < 1 << 31:
        raise MalformedError(f"{host.port} is no port")
    return packed + _PORT.pack(host.port)


@lru_cache(4096)
def take_host(raw: bytes) -> HostAddress:
    """The host in 8 or 20 bytes."""
    return HostAddress(str(ip_address(raw[:-4])), _PORT.unpack(raw[-4:])[0])


@lru_cache(4096)
def as_v4(host: HostAddress) -> HostAddress:
    """The same host, or an empty one: some clients cannot read IPv6 in messages."""
    try:
        address = ip_address(host.address)
    except ValueError:
        return NOWHERE
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return HostAddress(str(address.ipv4_mapped), host.port)
    return HostAddress("127.0.0.1" if address.is_loopback else "0.0.0.0", host.port)


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
