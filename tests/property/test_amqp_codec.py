"""The AMQP codec under random input: what goes in comes out, and garbage is refused politely."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

import headrace.wire.amqp.methods  # noqa: F401 - declares them
from headrace.errors import BrokerError
from headrace.wire.amqp import method_codec as fields_of
from headrace.wire.amqp.content import (
    body_of,
    body_size,
    fits,
    make_content,
    properties_of,
    rechannel,
    rechannel_all,
    reframe,
    with_properties,
)
from headrace.wire.amqp.method_codec import METHODS, Method, decode_method, method_frame
from headrace.wire.amqp.properties import (
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
from headrace.wire.amqp.values import (
    LongInt,
    Timestamp,
    decode_table,
    decode_value,
    encode_table,
    encode_value,
    skip_value,
)

# -- strategies -------------------------------------------------------------------------------


def escaped(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


octets, shorts = st.integers(0, 0xFF), st.integers(0, 0xFFFF)
longs, long_longs = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
signed_longs = st.integers(-(2**63), 2**63 - 1)
short_texts = st.text(max_size=20) | st.binary(max_size=255).map(escaped)
decimals = st.builds(
    lambda unscaled, scale: Decimal(f"{unscaled}E-{scale}"),
    st.integers(-(2**31), 2**31 - 1),
    octets,
)
scalars = (
    st.none()
    | st.booleans()
    | signed_longs
    | signed_longs.map(LongInt)
    | long_longs.map(Timestamp)
    | st.floats(allow_nan=False)
    | decimals
    | st.binary(max_size=40)
    | st.binary(max_size=40).map(escaped)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(short_texts, inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(short_texts, values, max_size=6)

# Codes which the encoder never writes, but which a publisher may send.
FOREIGN = {b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"u": 2, b"i": 4, b"f": 4, b"L": 8}
foreign = st.one_of(
    [st.binary(min_size=size, max_size=size).map(code.__add__) for code, size in FOREIGN.items()]
)
raw_headers = st.lists(
    st.tuples(st.binary(max_size=9), foreign | values.map(encode_value)), max_size=8
).map(lambda fields: b"".join([bytes([len(n)]) + n + value for n, value in fields]))

BY_KIND = [
    (fields_of.Bit, st.booleans()),
    (fields_of.U8, octets),
    (fields_of.U16, shorts),
    (fields_of.U32, longs),
    (fields_of.U64, long_longs),
    (fields_of.Short, st.text(max_size=20)),
    (fields_of.Key, short_texts),
    (fields_of.Reason, short_texts),
    (fields_of.LongString, st.binary(max_size=300)),
    (fields_of.Table, tables),
]


def strategy_of(kind: fields_of.FieldCodec) -> st.SearchStrategy[object]:
    return next(strategy for alias, strategy in BY_KIND if alias.__metadata__[0] is kind)


def arguments_of(cls: type[Method]) -> st.SearchStrategy[Method]:
    return st.builds(cls, **{name: strategy_of(kind) for name, kind in cls.layout})


methods = st.sampled_from(list(METHODS.values())).flatmap(arguments_of)

texts = st.none() | short_texts
properties = st.builds(
    Properties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | raw_headers.map(HeaderTable),
    delivery_mode=st.none() | octets,
    priority=st.none() | octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | long_longs,
    type=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)
bodies = st.binary(max_size=200)
frame_maxes = st.just(0) | st.integers(9, 300)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A valid encoding with some bytes overwritten, inserted or cut out."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 4))
        data[start : start + length] = draw(st.binary(max_size=4))
    return bytes(data)


def gives_a_value_or_a_broker_error(decode: Callable[[bytes], object], data: bytes) -> None:
    try:
        decode(data)
    except BrokerError:
        pass


# -- what goes in comes out -------------------------------------------------------------------


@given(value=values, before=st.binary(max_size=3), rest=st.binary(max_size=3))
def test_values_round_trip_and_leave_the_rest(value: object, before: bytes, rest: bytes) -> None:
    wire = encode_value(value)
    data = before + wire + rest

    decoded, end = decode_value(data, len(before))

    assert decoded == value
    assert encode_value(decoded) == wire
    assert end == len(data) - len(rest)
    assert skip_value(data, len(before), len(data)) == end


@given(table=tables, rest=st.binary(max_size=3))
def test_tables_round_trip_and_leave_the_rest(table: dict[str, object], rest: bytes) -> None:
    wire = encode_table(table)

    assert decode_table(wire + rest) == (table, len(wire))


@given(method=methods, channel=shorts)
def test_methods_round_trip(method: Method, channel: int) -> None:
    frame = method_frame(channel, method)

    assert decode_method(frame[7:-1]) == method
    assert frame[:3] == b"\x01" + channel.to_bytes(2, "big")
    assert int.from_bytes(frame[3:7], "big") == len(frame) - 8
    assert frame[-1] == 0xCE


@given(raw=raw_headers)
def test_headers_are_lossless_and_agree_with_tables(raw: bytes) -> None:
    header = HeaderTable(raw)
    wire = len(raw).to_bytes(4, "big") + raw

    assert header.encode() == wire
    assert repr(header.as_dict()) == repr(decode_table(wire)[0])  # repr: NaN equals itself
    assert header.encode() == wire


@given(raw=raw_headers, name=short_texts, value=values)
def test_setting_one_header_keeps_the_others(raw: bytes, name: str, value: object) -> None:
    header, before = HeaderTable(raw), HeaderTable(raw)

    header.set(name, value)
    after = HeaderTable(header.encode()[4:])

    assert after.get(name) == value
    assert {n: after.get_raw(n) for n in before if n != name} == {
        n: before.get_raw(n) for n in before if n != name
    }


@given(props=properties, size=long_longs)
def test_properties_round_trip(props: Properties, size: int) -> None:
    payload = props.encode(size)

    check_header(payload)
    assert Properties.decode(payload) == (props, size)


@given(props=properties, body=bodies)
def test_scanners_agree_with_the_decoder(props: Properties, body: bytes) -> None:
    content = make_content(props, body)

    assert delivery_mode(content) == (props.delivery_mode or 0)
    assert priority(content) == (props.priority or 0)
    assert expiration(content) == props.expiration
    assert reply_to(content) == props.reply_to
    assert user_id(content) == props.user_id
    assert headers_raw(content) == (props.headers.encode()[4:] if props.headers else b"")


@given(props=properties, body=bodies, channel=shorts, frame_max=frame_maxes)
def test_contents_give_back_what_they_were_made_of(
    props: Properties, body: bytes, channel: int, frame_max: int
) -> None:
    content = make_content(props, body, channel, frame_max)

    assert body_size(content) == len(body)
    assert body_of(content) == body
    assert properties_of(content) == props
    assert with_properties(content, props) == content


@given(
    parts=st.lists(st.tuples(properties, bodies, frame_maxes), max_size=4),
    old=shorts,
    new=shorts,
)
def test_moving_contents_equals_making_them_there(
    parts: list[tuple[Properties, bytes, int]], old: int, new: int
) -> None:
    there = [make_content(props, body, new, limit) for props, body, limit in parts]
    here = [make_content(props, body, old, limit) for props, body, limit in parts]

    assert rechannel_all(here, new) == there
    assert [rechannel(content, new) for content in here] == there


@given(body=bodies, before=frame_maxes, after=frame_maxes, channel=shorts)
def test_reframing_keeps_the_message(body: bytes, before: int, after: int, channel: int) -> None:
    content = make_content(Properties(), body, 1, before)

    again = reframe(content, channel, after)

    assert body_of(again) == body
    assert fits(again, max(after, 22) if after else 0)  # the header frame is 22 bytes, unsplit
    assert again == rechannel(again, channel)


# -- garbage ----------------------------------------------------------------------------------


@given(data=st.binary(max_size=60) | damaged(values.map(encode_value)))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    gives_a_value_or_a_broker_error(lambda data: decode_value(data, 0), data)
    gives_a_value_or_a_broker_error(lambda data: skip_value(data, 0, len(data)), data)


@given(data=st.binary(max_size=60) | damaged(tables.map(encode_table)))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    gives_a_value_or_a_broker_error(decode_table, data)
    gives_a_value_or_a_broker_error(lambda raw: HeaderTable(raw).as_dict(), data[4:])


@given(
    data=st.builds(
        lambda wire_id, rest: wire_id.to_bytes(4, "big") + rest,
        st.sampled_from(list(METHODS)),
        st.binary(max_size=60),
    )
    | damaged(methods.map(lambda method: method_frame(1, method)[7:-1]))
)
def test_any_bytes_are_a_method_or_an_error(data: bytes) -> None:
    gives_a_value_or_a_broker_error(decode_method, data)


@given(
    data=st.binary(max_size=60).map(b"\x00\x3c".__add__)
    | damaged(properties.map(lambda props: props.encode(7)))
)
def test_any_bytes_are_properties_or_an_error(data: bytes) -> None:
    gives_a_value_or_a_broker_error(Properties.decode, data)
    gives_a_value_or_a_broker_error(check_header, data)


@given(data=st.binary(max_size=90) | damaged(properties.map(lambda p: make_content(p, b"body"))))
def test_any_bytes_are_scanned_or_an_error(data: bytes) -> None:
    scanners = (delivery_mode, priority, expiration, reply_to, user_id, headers_raw)
    for scan in (*scanners, body_size, body_of, properties_of):
        gives_a_value_or_a_broker_error(scan, data)
    gives_a_value_or_a_broker_error(lambda data: with_properties(data, Properties()), data)
    gives_a_value_or_a_broker_error(lambda data: rechannel(data, 2), data)
    gives_a_value_or_a_broker_error(lambda data: reframe(data, 2, 20), data)


@given(props=properties, body=bodies)
def test_contents_cut_at_any_byte_are_scanned_or_an_error(props: Properties, body: bytes) -> None:
    content = make_content(props, body)

    for cut in range(len(content)):
        gives_a_value_or_a_broker_error(delivery_mode, content[:cut])
        gives_a_value_or_a_broker_error(headers_raw, content[:cut])
