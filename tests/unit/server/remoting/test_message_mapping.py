"""Messages of RocketMQ as entries of topics, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.server.remoting.message_mapping import (
    TopicRecord,
    encode_record,
    physical_offset,
    sent_bytes,
    split_physical,
    take_record,
)
from headrace.store.topics.entry import decode_entry, encode_entry
from headrace.store.topics.types import Entry
from headrace.wire.remoting.message_ids import HostAddress, host_bytes
from support.remoting_bodies import take_message

names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "colour", "größe"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=9)
records = st.builds(
    TopicRecord,
    st.binary(max_size=20),
    st.dictionaries(names, words, max_size=5),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 0x3F0).map(lambda bits: bits & ~0x30),
    st.integers(0, 1 << 50),
    st.builds(HostAddress, st.ip_addresses(v=4).map(str), st.integers(0, 65535)),
    st.integers(0, 99),
    st.integers(0, 1 << 60),
)


@given(records)
def test_a_record_survives_as_an_entry_and_on_the_wire(record: TopicRecord) -> None:
    found = take_record(encode_record(record))

    assert found == record
    host = host_bytes(HostAddress("127.0.0.1", 10911))
    sent = take_message(sent_bytes(found, b"T", 3, 7, 1024, 5, host), inflated=False)
    assert dict(sent.properties) == dict(record.properties)
    assert (sent.body, sent.flag, sent.sys_flag) == (record.body, record.flag, record.sys_flag)
    assert (sent.born_timestamp, sent.born_host) == (record.born, record.born_host)
    assert (sent.reconsume_times, sent.queue_id, sent.queue_offset) == (
        record.reconsume_times,
        3,
        7,
    )


def test_tag_key_and_id_have_their_places_in_the_entry() -> None:
    record = TopicRecord(b"x", {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "u", "colour": "red"})
    parts = decode_entry(encode_record(record))

    assert (parts.tags, parts.key, parts.message_id) == ("a", "k1", "u")
    assert dict(parts.properties) == {"KEYS": "k1 k2", "colour": "red"}


@pytest.mark.parametrize("value", ["nonsense", "9" * 30, "-1" + "0" * 20])
def test_an_entry_written_by_another_program_becomes_a_message(value: str) -> None:
    own = dict.fromkeys(["$rocketmq.flag", "$rocketmq.bornport", "$rocketmq.prepared"], value)
    entry = Entry(b"x", key="order-1", tags="a", source_ip="nowhere", properties=own)
    record = take_record(encode_entry(entry))
    sent_bytes(record, b"T", 0, 0, 0, 0, host_bytes(HostAddress("127.0.0.1", 1)))

    assert record.properties == {"TAGS": "a", "KEYS": "order-1"}
    assert record.flag == 0
    assert record.born_host == ("0.0.0.0", 0)


def test_properties_which_rocketmq_cannot_say_are_left_out() -> None:
    properties = {"good": "1", "bad": "a\x02b", "b\x01d": "3", "huge": "x" * 40_000, "too": "2"}
    sent = sent_bytes(
        TopicRecord(b"", properties), b"T", 0, 0, 0, 0, host_bytes(HostAddress("0.0.0.0", 0))
    )

    assert dict(take_message(sent).properties) == {"good": "1", "too": "2"}


@given(st.integers(0, (1 << 23) - 1), st.integers(0, (1 << 40) - 1))
def test_a_physical_offset_survives(number: int, offset: int) -> None:
    assert split_physical(physical_offset(number, offset)) == (number, offset)
    assert physical_offset(number, offset) < 1 << 63
