"""Properties, header tables that lose nothing, and the single-field scanners."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import InternalError, MalformedError, UnexpectedFrame
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.properties import (
    FLAG_CLUSTER_ID,
    FLAG_CONTENT_TYPE,
    HeaderTable,
    Properties,
    check_header,
    delivery_mode,
    expiration,
    headers_raw,
    priority,
    reply_to,
    user_id,
)

EVERY_CODE = (
    b"\x01aF\x00\x00\x00\x03\x01nV" + b"\x01bA\x00\x00\x00\x02B\x07" + b"\x01cu\xff\xff"
    b"\x01di\x00\x00\x00\x01" + b"\x01eB\x09" + b"\x01fL" + bytes(8) + b"\x01gs\xff\xff"
    b"\x01hf\x3f\xc0\x00\x00" + b"\x01ib\xff" + b"\x01jI" + bytes(4) + b"\x01kl" + bytes(8)
) + (
    b"\x01ld" + bytes(8) + b"\x01mD\x01" + bytes(4) + b"\x01nT" + bytes(8) + b"\x01oV"
    b"\x01pt\x07" + b"\x01qS\x00\x00\x00\x02\xff\xfe" + b"\x01rx\x00\x00\x00\x01x" + b"\x00V"
)

FULL = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers=HeaderTable(EVERY_CODE),
    delivery_mode=2,
    priority=9,
    correlation_id="corr",
    reply_to="amq.rabbitmq.reply-to",
    expiration="60000",
    message_id="m-1",
    timestamp=1_700_000_000,
    type="order",
    user_id="guest",
    app_id="shop",
    cluster_id="c",
)

# Only the field that is asked for, and every field before it.
SCANNERS: list[tuple[Callable[[bytes], object], str, object, object]] = [
    (delivery_mode, "delivery_mode", 2, 0),
    (priority, "priority", 9, 0),
    (expiration, "expiration", "60000", None),
    (reply_to, "reply_to", "amq.rabbitmq.reply-to", None),
    (user_id, "user_id", "guest", None),
]


def test_unmodified_headers_come_back_byte_for_byte() -> None:
    table = HeaderTable(EVERY_CODE)
    assert table.encode() == len(EVERY_CODE).to_bytes(4, "big") + EVERY_CODE

    assert len(table.as_dict()) == len(table) == 19
    assert table.encode()[4:] == EVERY_CODE


def test_a_modified_table_keeps_the_bytes_of_all_other_values() -> None:
    table = HeaderTable(EVERY_CODE)

    table.set("new", 1)
    table.remove("new")
    assert table.encode()[4:] == EVERY_CODE

    table.set("p", "changed in place")
    table.remove("a")
    assert table.get_raw("c") == b"u\xff\xff"
    assert table.get("p") == "changed in place"
    assert "a" not in table
    assert list(table)[-4:] == ["p", "q", "r", ""]


def test_header_values_are_decoded_one_by_one() -> None:
    table = HeaderTable(EVERY_CODE)

    assert table.get("c") == 65535
    assert table.get("q") == "\udcff\udcfe"
    assert table.get("o", "default") is None
    assert table.get("nobody", "default") == "default"
    assert table.get_raw("nobody") is None


def test_an_encoded_value_can_be_set_as_it_is() -> None:
    table = HeaderTable()

    table.set_raw("x", b"u\x00\x07")

    assert table.encode() == b"\x00\x00\x00\x05\x01xu\x00\x07"
    assert table == HeaderTable(b"\x01xu\x00\x07")


def test_the_first_of_two_headers_with_one_name_counts() -> None:
    raw = b"\x01at\x01\x01at\x00"
    table = HeaderTable(raw)

    assert table.get("a") is True
    assert table.as_dict() == {"a": True}
    assert table.encode()[4:] == raw


def test_a_copy_has_its_own_life() -> None:
    table = HeaderTable.of({"a": 1})
    twin, unread = table.copy(), HeaderTable(b"\x01aV").copy()

    twin.set("b", 2)

    assert "b" not in table
    assert twin.as_dict() == {"a": 1, "b": 2}
    assert unread.as_dict() == {"a": None}


def test_header_tables_are_equal_when_their_bytes_are() -> None:
    assert HeaderTable.of({"a": 1}) == HeaderTable(b"\x01aI\x00\x00\x00\x01")
    assert HeaderTable.of({"a": 1}) != HeaderTable(b"\x01aB\x01")
    assert HeaderTable() != b""
    assert repr(HeaderTable(b"\x01aV")) == r"HeaderTable(b'\x01aV')"


def test_broken_headers_are_reported_when_they_are_read() -> None:
    for raw in (b"\x05ab", b"\x01a", b"\x01aI\x00", b"\x01aS\x00\x00\x00\x09x"):
        with pytest.raises(MalformedError):
            HeaderTable(raw).get("a")
    with pytest.raises(InternalError):
        HeaderTable(b"\x01aU\x00\x00").as_dict()
    with pytest.raises(MalformedError):
        HeaderTable().set("n" * 256, 1)


def test_all_properties_round_trip() -> None:
    payload = FULL.encode(123)

    assert Properties.decode(payload) == (FULL, 123)
    assert payload[:14] == b"\x00\x3c\x00\x00" + (123).to_bytes(8, "big") + b"\xff\xfc"


def test_no_properties_are_fourteen_bytes() -> None:
    payload = Properties().encode(0)

    assert payload == b"\x00\x3c" + bytes(12)
    assert Properties.decode(payload) == (Properties(), 0)


def test_empty_differs_from_absent() -> None:
    payload = Properties(content_type="", priority=0, headers=HeaderTable()).encode(0)

    decoded, _ = Properties.decode(payload)

    assert decoded.as_dict() == {"content_type": "", "headers": {}, "priority": 0}


def test_a_header_cut_or_extended_at_any_byte_is_malformed() -> None:
    payload = FULL.encode(1)

    check_header(payload)
    for wrong in [payload[:length] for length in range(len(payload))] + [payload + b"\x00"]:
        with pytest.raises(MalformedError):
            check_header(wrong)
        with pytest.raises(MalformedError):
            Properties.decode(wrong)


def test_flags_without_a_property_are_malformed() -> None:
    for low_byte in (1, 2, 3):
        with pytest.raises(MalformedError):
            check_header(b"\x00\x3c" + bytes(11) + bytes([low_byte]))


def test_the_header_of_another_class_or_with_a_weight_is_unexpected() -> None:
    with pytest.raises(UnexpectedFrame, match="expected content header for class 60"):
        check_header(b"\x00\x32" + bytes(12))
    with pytest.raises(UnexpectedFrame, match="got non content header frame"):
        check_header(b"\x00\x3c\x00\x01" + bytes(10))


@pytest.mark.parametrize(
    "properties",
    [
        Properties(delivery_mode=256),
        Properties(priority=-1),
        Properties(timestamp=2**64),
        Properties(message_id="m" * 256),
    ],
)
def test_properties_without_room_are_malformed(properties: Properties) -> None:
    with pytest.raises(MalformedError):
        properties.encode(0)


@pytest.mark.parametrize(("scan", "name", "value", "absent"), SCANNERS)
def test_a_scanner_finds_its_field(
    scan: Callable[[bytes], object], name: str, value: object, absent: object
) -> None:
    alone = Properties()
    setattr(alone, name, value)
    all_but_it, _ = Properties.decode(FULL.encode(0))
    setattr(all_but_it, name, None)

    assert scan(make_content(FULL, b"body")) == value
    assert scan(make_content(alone, b"")) == value
    assert scan(make_content(all_but_it, b"body")) == absent
    assert scan(make_content(Properties(), b"")) == absent


def test_the_raw_headers_are_the_table_without_its_length() -> None:
    assert headers_raw(make_content(FULL, b"body")) == EVERY_CODE
    assert headers_raw(make_content(Properties(headers=HeaderTable()), b"body")) == b""
    assert headers_raw(make_content(Properties(priority=1), b"body")) == b""


@pytest.mark.parametrize("scan", [*(row[0] for row in SCANNERS), headers_raw])
def test_scanners_never_read_past_a_header_that_lies(scan: Callable[[bytes], object]) -> None:
    content = make_content(FULL, b"a body that must not be taken for properties")
    header_size = int.from_bytes(content[3:7], "big")

    for length in range(21):
        with pytest.raises(MalformedError):
            scan(content[:length])
    for size in range(14, 20):  # the frame says that the header is shorter than its values
        with pytest.raises(MalformedError):
            scan(content[:3] + size.to_bytes(4, "big") + content[7:])
    for length in range(21, 7 + header_size):
        try:
            scan(content[:length])
        except MalformedError:
            pass


def test_flags_are_the_bits_of_the_specification() -> None:
    assert FLAG_CONTENT_TYPE == 0x8000
    assert FLAG_CLUSTER_ID == 0x0004
