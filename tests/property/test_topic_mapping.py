"""AMQP messages through a topic and back: nothing about them changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.topics.amqp_mapping import RAW, content_of, entry_of
from headrace.model.topics.message_priority import Priority
from headrace.model.topics.partitions import Partition
from headrace.store.topics.entry import EntryFields, decode_entry, encode_entry
from headrace.store.topics.reads import DeliveredEntries, messages_of
from headrace.store.topics.types import Entry
from headrace.wire.amqp.content import body_of, make_content, properties_of
from headrace.wire.amqp.properties import HeaderTable, Properties

texts = st.text(st.characters(codec="utf-8"), max_size=60)
raw_texts = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))
shorts = st.none() | texts | raw_texts
values = st.recursive(
    texts | raw_texts | st.booleans() | st.integers(-(1 << 31), (1 << 31) - 1) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = texts | raw_texts | st.sampled_from(["amqp.raw", "amqp.priority", "colour"])
headers = st.none() | st.dictionaries(names, values, max_size=4).map(HeaderTable.of)
numbers = st.none() | st.integers(0, 255)
properties = st.builds(
    Properties,
    shorts,
    shorts,
    headers,
    numbers,
    numbers,
    shorts,
    shorts,
    shorts,
    shorts,
    st.none() | st.integers(0, (1 << 64) - 1) | st.integers(0, 4_000_000_000),
    shorts,
    shorts,
    shorts,
    shorts,
)


@given(properties, st.binary(max_size=300), texts | raw_texts)
def test_a_message_comes_back_as_it_was(sent: Properties, body: bytes, key: str) -> None:
    content = make_content(sent, body)

    entry = entry_of(content, key)
    parts = decode_entry(encode_entry(entry))
    back = content_of(parts, entry.priority, 131072)

    assert body_of(back) == body
    assert properties_of(back) == properties_of(content)


@given(st.dictionaries(texts, texts, max_size=5), texts, st.binary(max_size=200))
def test_plain_text_is_shown_as_such(given: dict[str, str], correlation: str, body: bytes) -> None:
    given = {name: one for name, one in given.items() if not name.startswith("amqp.")}
    sent = Properties(
        headers=HeaderTable.of(given) if given else None,
        delivery_mode=2,
        correlation_id=correlation,
    )

    entry = entry_of(make_content(sent, body), "key")

    assert entry.properties == {**given, "amqp.correlation_id": correlation}
    assert RAW not in entry.properties


entries = st.builds(
    Entry,
    st.binary(max_size=300),
    st.sampled_from(Priority),
    texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.dictionaries(texts | st.sampled_from(["amqp.raw", "amqp.priority"]), texts, max_size=4),
)


@given(entries)
def test_an_entry_is_kept_whole(entry: Entry) -> None:
    piece = DeliveredEntries(Partition(entry.priority, 2), 1, 7, [5], [encode_entry(entry)])
    (message,) = messages_of([piece])

    assert message.id == (2 << 40) + 6
    for name in ("body", "token", "key", "tags", "source_ip", "message_id", "born", "properties"):
        assert getattr(message, name) == getattr(entry, name)


@given(entries)
def test_any_entry_can_be_given_to_amqp_clients(entry: Entry) -> None:
    parts: EntryFields = decode_entry(encode_entry(entry))

    content = content_of(parts, entry.priority, 4096)

    assert body_of(content) == entry.body
    properties_of(content)
