"""Entries of topics: what is kept, and bytes that are no entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadTopicValue, StoreError
from headrace.model.topics.message_priority import Priority
from headrace.store.topics.entry import (
    decode_entry,
    encode_entries,
    encode_entry,
    tags_of,
)
from headrace.store.topics.types import Entry, UniformEntries
from headrace.wire.record_layout import ENTRY_HEAD_SIZE

WHOLE = Entry(b"body", token="t", key="k", tags="paid", source_ip="::1", message_id="m", born=-5,
              properties={"a": "b"})  # fmt: skip


def test_the_layout_is_the_documented_one() -> None:
    data = encode_entry(Entry(b"B", token="tok", key="kk", tags="g", message_id="mm", born=258))

    assert data[:ENTRY_HEAD_SIZE] == (
        b"\x01\x1b" b"\x02\x00" b"\x01\x00" b"\x02\x00" b"\x03\x00" b"\x00\x00" b"\x00\x00\x00\x00"
        b"\x02\x01\x00\x00\x00\x00\x00\x00" + bytes(8)
    )  # fmt: skip
    assert data[ENTRY_HEAD_SIZE:] == b"kkgmmtokB"


@pytest.mark.parametrize("entry", [Entry(b""), WHOLE, Entry(b"", tags="")], ids=repr)
def test_tags_can_be_had_alone(entry: Entry) -> None:
    assert tags_of(encode_entry(entry)) == entry.tags


def test_empty_and_missing_are_told_apart() -> None:
    parts = decode_entry(encode_entry(Entry(b"", key="", born=0)))

    assert (parts.key, parts.tags, parts.born) == ("", None, 0)


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(BadTopicValue):
        encode_entry(Entry(b"", key="k" * 70_000))


def test_half_a_character_is_refused() -> None:
    with pytest.raises(BadTopicValue):
        encode_entry(Entry(b"", key="\ud800"))


@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_or_a_store_error(data: bytes) -> None:
    try:
        decode_entry(data)
    except StoreError:
        pass


@given(st.integers(0, len(encode_entry(WHOLE)) - len(WHOLE.body) - 1))
def test_an_entry_cut_short_is_noticed(length: int) -> None:
    with pytest.raises(StoreError):
        decode_entry(encode_entry(WHOLE)[:length])


_TEXT = st.none() | st.text(st.characters(codec="utf-8"), max_size=3)
_ENTRIES = st.builds(
    Entry,
    st.binary(max_size=5),
    token=st.sampled_from(("", "a", "b")),
    key=_TEXT,
    tags=_TEXT,
    source_ip=st.none() | st.just("::1"),
    message_id=_TEXT,
    born=st.none() | st.integers(-5, 5),
    properties=st.dictionaries(st.sampled_from("ab"), st.just("x"), max_size=1),
)


_PLAIN = st.builds(lambda body, token: Entry(body, token=token), st.binary(), st.sampled_from("ab"))


@given(st.lists(_ENTRIES | _PLAIN))
def test_many_are_encoded_as_one_by_one(entries: list[Entry]) -> None:
    assert encode_entries(entries) == [encode_entry(one) for one in entries]


@given(st.lists(st.binary()), st.sampled_from(Priority), st.text("ab"))
def test_those_that_are_alike_are_encoded_as_one_by_one(
    bodies: list[bytes], priority: Priority, token: str
) -> None:
    entries = UniformEntries(bodies, priority, token)
    assert list(entries) == [Entry(body, priority, token) for body in bodies]
    assert [entries[at] for at in range(len(entries))] == list(entries)
    assert list(entries[1:3]) == list(entries)[1:3]
    assert encode_entries(entries) == [encode_entry(one) for one in entries]
