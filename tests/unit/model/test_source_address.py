"""Addresses of producers, as they and other programs store them."""

from __future__ import annotations

import pytest

from headrace.errors import BadTopicValue
from headrace.model.topics.source_address import address_text, ipv4_text, packed_address


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        (b"\x0a\x00\x00\x07", "10.0.0.7"),
        (b"\x00" * 15 + b"\x01", "::1"),
        (b"3232235521", "192.168.0.1"),  # as INT columns have it, in text
        (b"192.168.0.1", "192.168.0.1"),
        (b"fe80::1", "fe80::1"),
        (b"", None),
        (b"-1", None),
        (b"99999999999", None),
        (b"unknown", None),
        (b"\xff\xfe", None),
    ],
)
def test_whatever_is_stored_is_an_address_or_none(stored: bytes, text: str | None) -> None:
    assert address_text(stored) == text


def test_addresses_and_numbers_of_ipv4_can_be_given() -> None:
    assert packed_address("::1") == b"\x00" * 15 + b"\x01"
    assert ipv4_text(3232235521) == "192.168.0.1"
    for bad in (-1, 1 << 32):
        with pytest.raises(BadTopicValue, match="0 to 4294967295"):
            ipv4_text(bad)
    with pytest.raises(BadTopicValue, match="no IPv4 or IPv6 address"):
        packed_address("nowhere")
