"""Payloads of the native protocol and the fields of requests."""

from __future__ import annotations

from decimal import Decimal

import msgpack
import pytest

from headrace.errors import CommandInvalid
from headrace.wire.native.payloads import (
    MAX_ARRAY,
    MAX_VALUES,
    Op,
    Request,
    message,
    pack,
    request_size,
    unpack,
)


def request(**fields: object) -> Request:
    return Request(Op.PING, {"rid": 1, **fields})


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01", id="number"),
        pytest.param(b"\x90", id="array"),
        pytest.param(b"\xc1", id="never used"),
        pytest.param(b"\x80\x80", id="two maps"),
        pytest.param(b"\x81\xa1a", id="cut short"),
        pytest.param(b"\x81\x01\x02", id="number as key"),
        pytest.param(b"\x81\xa1a\xa1\xff", id="not UTF-8"),
        pytest.param(b"\x81\xa1a\xc7\x00\x05", id="empty extension"),
        pytest.param(b"\x81\xa1a\xd6\xff\0\0\0\0", id="timestamp extension"),
        pytest.param(b"\x81\xa1a" + b"\x91" * 5000 + b"\xc0", id="deep"),
        pytest.param(b"\x81\xa1a\xdd\xff\xff\xff\xff", id="huge array"),
        pytest.param(b"\x81\xa1a\xdf\xff\xff\xff\xff", id="huge map"),
        pytest.param(b"\x81\xa1a\xdb\xff\xff\xff\xff", id="huge string"),
        pytest.param(b"\x81\xa1a\xc6\xff\xff\xff\xff", id="huge binary"),
    ],
)
def test_what_is_not_one_plain_map_is_refused(payload: bytes) -> None:
    with pytest.raises(CommandInvalid):
        unpack(payload)


def test_arrays_have_a_limit() -> None:
    assert len(unpack(pack({"a": [0] * MAX_ARRAY}))["a"]) == MAX_ARRAY
    with pytest.raises(CommandInvalid, match="max_array_len"):
        unpack(pack({"a": [0] * (MAX_ARRAY + 1)}))


def test_values_without_a_type_of_their_own_travel_as_text() -> None:
    assert unpack(pack({"a": Decimal("1.50")})) == {"a": "1.50"}


def test_text_that_is_not_utf8_is_shown_with_question_marks() -> None:
    assert unpack(pack({"a": "x\udcffy"})) == {"a": "x?y"}


def test_a_message_is_a_frame_with_a_map() -> None:
    data = message(Op.PING, {"rid": 1})

    assert data[:8] == b"\0\0\0\x0e\0\0\0\x06"
    assert msgpack.unpackb(data[8:]) == {"rid": 1}


@pytest.mark.parametrize("rid", [None, 1.5, True, [], b"x", "x" * 256])
def test_rid_must_be_a_number_or_a_short_text(rid: object) -> None:
    with pytest.raises(CommandInvalid, match="'rid'"):
        Request(1, {"rid": rid})


def test_fields_are_read_with_their_types() -> None:
    one = request(ch="c", text="t", flag=True, whole=3, table={"a": 1})

    assert (one.rid, one.ch, one.text("text"), one.flag("flag")) == (1, "c", "t", True)
    assert (one.whole("whole"), one.table("table")) == (3, {"a": 1})


def test_missing_fields_have_defaults() -> None:
    one = request()

    assert (one.ch, one.text("a", "x"), one.flag("a"), one.whole("a", 7)) == (None, "x", False, 7)
    assert one.table("a") == {}


@pytest.mark.parametrize(
    ("read", "value"),
    [
        ("text", 1),
        ("text", b"x"),
        ("text", None),
        ("name", "x" * 256),
        ("name", "\u00e9" * 128),
        ("flag", 1),
        ("flag", "yes"),
        ("whole", -1),
        ("whole", True),
        ("whole", 1.0),
        ("whole", None),
        ("table", []),
        ("table", "x"),
    ],
)
def test_fields_of_a_wrong_type_are_refused(read: str, value: object) -> None:
    with pytest.raises(CommandInvalid, match="'field'"):
        getattr(request(field=value), read)("field")


def test_a_name_may_have_255_bytes() -> None:
    assert request(field="\u00e9" * 127 + "x").name("field") == "\u00e9" * 127 + "x"


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(b"\x80" * 8192, id="maps"),
        pytest.param(b"\x90" * 8192, id="arrays"),
        pytest.param(b"\xa3abc" * 8192, id="texts"),
        pytest.param((b"\x81\xa1a" * 31 + b"\x80") * 256 + b"\xc0" * 7936, id="nested maps"),
    ],
)
def test_the_values_of_a_payload_are_counted_before_all_are_built(inner: bytes) -> None:
    rows = b"\xdc\x20\x00" + inner
    payload = b"\x82\xa3rid\x01\xa5batch\xdc\x00\x40" + rows * 64

    with pytest.raises(CommandInvalid, match=f"more than {MAX_VALUES} values"):
        unpack(payload)


def test_a_full_batch_with_properties_is_read() -> None:
    properties = {"message_id": "a", "delivery_mode": 2, "headers": {str(n): n for n in range(16)}}
    one = {"exchange": "", "key": "k", "properties": properties, "body": b"x" * 100}
    fields = {"rid": 1, "ch": 1, "batch": [one] * MAX_ARRAY}

    assert unpack(pack(fields)) == fields


def test_only_types_that_carry_messages_may_be_large() -> None:
    large = {kind for kind in Op if request_size(kind) > 1 << 20}

    assert large == {Op.PUBLISH, Op.APPEND, Op.STAGE}
    assert request_size(Op.PUBLISH_STAGED) == 1 << 20
    assert request_size(Op.LIST) == request_size(0x7F) == 1 << 16
