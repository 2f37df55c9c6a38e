"""Field values and tables, byte for byte."""

from __future__ import annotations

import struct
from collections import UserDict
from decimal import Decimal

import pytest

from headrace.errors import InternalError, MalformedError
from headrace.wire.amqp.reader import scan_header
from headrace.wire.amqp.values import (
    MAX_DEPTH,
    MAX_VALUES,
    LongInt,
    Timestamp,
    check_table,
    decode_table,
    decode_value,
    encode_table,
    encode_value,
    short_string,
    skip_value,
    take_long,
    take_short,
    type_name,
)

DECODED = [
    (b"t\x00", False),
    (b"t\x01", True),
    (b"t\x07", True),
    (b"b\xff", -1),
    (b"B\xff", 255),
    (b"s\xff\xfe", -2),
    (b"u\xff\xfe", 65534),
    (b"I\xff\xff\xff\xfd", -3),
    (b"i\xff\xff\xff\xfd", 0xFFFFFFFD),
    (b"l" + b"\xff" * 8, -1),
    (b"L" + b"\xff" * 8, -1),
    (b"f\x3f\xc0\x00\x00", 1.5),
    (b"d\x3f\xf8" + bytes(6), 1.5),
    (b"D\x02\xff\xff\xff\x83", Decimal("-1.25")),
    (b"T" + bytes(7) + b"\x05", 5),
    (b"V", None),
    (b"S\x00\x00\x00\x03\xc3\xa9\xff", "é\udcff"),
    (b"x\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
    (b"A\x00\x00\x00\x03Vt\x01", [None, True]),
    (b"F\x00\x00\x00\x05\x02abB\x07", {"ab": 7}),
]

ENCODED = [
    (True, b"t\x01"),
    (False, b"t\x00"),
    (5, b"I\x00\x00\x00\x05"),
    (-(2**31), b"I\x80\x00\x00\x00"),
    (2**31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
    (LongInt(5), b"l" + bytes(7) + b"\x05"),
    (Timestamp(5), b"T" + bytes(7) + b"\x05"),
    (1.5, b"d\x3f\xf8" + bytes(6)),
    ("é\udcff", b"S\x00\x00\x00\x03\xc3\xa9\xff"),
    (b"\x00\xff", b"x\x00\x00\x00\x02\x00\xff"),
    (bytearray(b"a"), b"x\x00\x00\x00\x01a"),
    (None, b"V"),
    ([None, True], b"A\x00\x00\x00\x03Vt\x01"),
    ((None,), b"A\x00\x00\x00\x01V"),
    ({"ab": "c"}, b"F\x00\x00\x00\x09\x02abS\x00\x00\x00\x01c"),
    (UserDict({"a": None}), b"F\x00\x00\x00\x03\x01aV"),
    (Decimal("-1.25"), b"D\x02\xff\xff\xff\x83"),
    (Decimal("3E+2"), b"D\x00\x00\x00\x01\x2c"),
]


def nested_table(levels: int) -> bytes:
    """A table of ``levels`` tables, each inside the one before it."""
    table = struct.pack(">I", 0)
    for _ in range(levels - 1):
        field = b"\x01nF" + table
        table = struct.pack(">I", len(field)) + field
    return table


@pytest.mark.parametrize(("wire", "value"), DECODED)
def test_every_code_is_decoded(wire: bytes, value: object) -> None:
    decoded, end = decode_value(b"??" + wire + b"rest", 2)

    assert decoded == value
    assert type(decoded) in (type(value), LongInt, Timestamp)
    assert end == 2 + len(wire)
    assert skip_value(wire, 0, len(wire)) == len(wire)


@pytest.mark.parametrize(("value", "wire"), ENCODED)
def test_every_type_is_encoded(value: object, wire: bytes) -> None:
    assert encode_value(value) == wire


@pytest.mark.parametrize(("wire", "value"), DECODED)
def test_a_value_cut_at_any_byte_is_malformed(wire: bytes, value: object) -> None:
    for length in range(len(wire)):
        with pytest.raises(MalformedError):
            decode_value(wire[:length], 0)
        with pytest.raises(MalformedError):
            skip_value(wire[:length], 0, length)


@pytest.mark.parametrize("code", sorted(set(range(256)) - set(b"tbBsuIilLfdDTVSxAF")))
def test_unknown_codes_are_internal_errors_as_in_rabbitmq(code: int) -> None:
    wire = bytes([code]) + bytes(16)

    with pytest.raises(InternalError):
        decode_value(wire, 0)
    with pytest.raises(InternalError):
        skip_value(wire, 0, len(wire))


def test_wide_codes_come_back_as_types_that_encode_to_them() -> None:
    for wire in (b"l" + bytes(7) + b"\x05", b"T" + bytes(7) + b"\x05"):
        assert encode_value(decode_value(wire, 0)[0]) == wire


def test_a_table_starts_with_its_length_in_bytes() -> None:
    assert encode_table({}) == b"\x00\x00\x00\x00"
    assert encode_table({"a": None}) == b"\x00\x00\x00\x03\x01aV"
    assert decode_table(b"-\x00\x00\x00\x03\x01aV-", 1) == ({"a": None}, 8)


def test_the_first_of_two_fields_with_one_name_counts() -> None:
    assert decode_table(b"\x00\x00\x00\x08\x01at\x01\x01at\x00")[0] == {"a": True}


def test_a_length_beyond_its_container_is_malformed_even_if_the_bytes_exist() -> None:
    inner_too_long = b"\x00\x00\x00\x09\x01aS\x00\x00\x00\x05xy" + b"more bytes"

    with pytest.raises(MalformedError):
        decode_table(inner_too_long)


def test_a_huge_length_is_refused_before_anything_is_read() -> None:
    for code in b"SxAF":
        with pytest.raises(MalformedError):
            decode_value(bytes([code]) + b"\xff\xff\xff\xff", 0)


def test_nesting_is_decoded_up_to_the_limit() -> None:
    table, _ = decode_table(nested_table(MAX_DEPTH))

    assert decode_table(encode_table(table))[0] == table
    with pytest.raises(MalformedError):
        decode_table(nested_table(MAX_DEPTH + 1))
    with pytest.raises(MalformedError):
        encode_table({"one more": table})


def test_ten_thousand_levels_are_malformed() -> None:
    array = b""
    for _ in range(10_000):
        array = b"A" + struct.pack(">I", len(array)) + array

    with pytest.raises(MalformedError):
        decode_value(array, 0)
    with pytest.raises(MalformedError):
        decode_table(nested_table(10_000))


def test_a_list_that_contains_itself_cannot_be_encoded() -> None:
    circle: list[object] = []
    circle.append(circle)

    with pytest.raises(MalformedError):
        encode_value(circle)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        LongInt(2**63),
        Timestamp(-1),
        Timestamp(2**64),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1E+11"),
        Decimal("1E-256"),
        Decimal("12345678901"),
        Decimal("2147483648"),
        "\ud800",
        object(),
        {1, 2},
        {"n" * 256: 1},
    ],
)
def test_what_amqp_has_no_room_for_is_malformed(value: object) -> None:
    with pytest.raises(MalformedError):
        encode_value(value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("x", "longstr"),
        (1, "signedint"),
        (2**31 - 1, "signedint"),
        (2**31, "long"),
        (-(2**31) - 1, "long"),
        (LongInt(1), "long"),
        (True, "bool"),
        (1.0, "double"),
        ({}, "table"),
        ([], "array"),
        ((), "array"),
        (Timestamp(1), "timestamp"),
        (None, "void"),
        (b"", "binary"),
        (Decimal(1), "decimal"),
    ],
)
def test_types_have_the_names_rabbitmq_gives_them(value: object, name: str) -> None:
    assert type_name(value) == name


def test_short_strings_hold_255_bytes() -> None:
    assert short_string("é") == b"\x02\xc3\xa9"
    assert short_string(b"\xff") == b"\x01\xff"
    assert take_short(short_string("x" * 255) + b"-", 0) == ("x" * 255, 256)
    with pytest.raises(MalformedError):
        short_string("é" * 128)


def test_strings_that_are_cut_short_are_malformed() -> None:
    for wire in (b"", b"\x03ab"):
        with pytest.raises(MalformedError):
            take_short(wire, 0)
    for wire in (b"", b"\x00\x00\x00", b"\x00\x00\x00\x03ab"):
        with pytest.raises(MalformedError):
            take_long(wire, 0)


def test_a_long_string_is_bytes() -> None:
    assert take_long(b"-\x00\x00\x00\x02\xff\x00-", 1) == (b"\xff\x00", 7)


def test_a_table_has_a_bounded_number_of_values() -> None:
    values: list[object] = [None] * (MAX_VALUES - 3)  # and the array, the table and its text
    for more, is_good in (([], True), ([None], False)):
        encoded = encode_table({"a": values + more, "b": {"c": "x" * 100}})
        if is_good:
            assert check_table(encoded, 0, len(encoded)) == len(encoded)
            assert len(decode_table(encoded)[0]["a"]) == len(values)
            continue
        with pytest.raises(MalformedError, match=f"more than {MAX_VALUES} values"):
            check_table(encoded, 0, len(encoded))
        with pytest.raises(MalformedError, match=f"more than {MAX_VALUES} values"):
            decode_table(encoded)


def test_a_large_table_that_is_cut_short_is_malformed() -> None:
    body = b"\x01aA" + struct.pack(">I", MAX_VALUES) + b"V" * MAX_VALUES + b"\xf0x"
    with pytest.raises(MalformedError):
        decode_table(struct.pack(">I", len(body)) + body)


def test_a_header_that_ends_within_the_length_of_a_text_is_malformed() -> None:
    table = b"\x00\x00\x00\x03\x01aS"
    with pytest.raises(MalformedError, match="does not match"):
        scan_header(table, 0, len(table), 0x2000)
