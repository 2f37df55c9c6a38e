"""Addresses of producers: packed as they are stored, and as text."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

from headrace.errors import BadTopicValue


def packed_address(text: str) -> bytes:
    """4 or 16 bytes."""
    try:
        return ip_address(text).packed
    except ValueError:
        raise BadTopicValue(f"source_ip {text!r:.80} is no IPv4 or IPv6 address") from None


def ipv4_text(number: int) -> str:
    try:
        return str(IPv4Address(number))
    except ValueError:
        raise BadTopicValue(f"source_ip {number} is no IPv4 address: 0 to 4294967295") from None


def address_text(stored: bytes) -> str | None:
    """The address; None when it is none. Other programs may store it as text, or as the decimal
    number of an IPv4 address."""
    try:
        if len(stored) in (4, 16):
            return str(ip_address(stored))
        text = stored.decode("ascii").strip()
        return str(IPv4Address(int(text)) if text.isdigit() else ip_address(text))
    except ValueError:
        return None
