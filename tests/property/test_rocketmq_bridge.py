"""RocketMQ messages through AMQP and back, AMQP messages through RocketMQ and back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.topics.amqp_mapping import content_of, entry_of
from headrace.model.topics.message_priority import Priority
from headrace.server.remoting.message_mapping import TopicRecord, encode_record, take_record
from headrace.store.topics.entry import decode_entry, encode_entry
from headrace.wire.amqp.content import body_of, make_content, properties_of
from headrace.wire.amqp.properties import HeaderTable, Properties

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02"), max_size=40)
words = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)
names = texts.filter(lambda name: name and not name.startswith(("amqp.", "$rocketmq.")))
special = {"KEYS", "TAGS", "UNIQ_KEY"}
users_own = st.dictionaries(
    names.filter(lambda name: name not in special), texts.filter(bool), max_size=5
)


@st.composite
def records(draw: st.DrawFn) -> TopicRecord:
    given = draw(users_own)
    given["UNIQ_KEY"] = draw(words)
    if draw(st.booleans()):
        given["TAGS"] = draw(words)
    if draw(st.booleans()):
        given["KEYS"] = " ".join(draw(st.lists(words, min_size=1, max_size=3)))
    return TopicRecord(
        draw(st.binary(max_size=100)), given, born=draw(st.integers(0, 1 << 40)) * 1000
    )


@given(records(), st.sampled_from(Priority))
def test_a_rocketmq_message_comes_back_from_an_amqp_queue(
    record: TopicRecord, priority: Priority
) -> None:
    content = content_of(decode_entry(encode_record(record)), priority, 131072)
    shown = properties_of(content)
    entry = entry_of(content, record.properties.get("TAGS", ""))
    back = take_record(encode_entry(entry))

    assert entry.priority is priority
    assert shown.message_id == record.properties["UNIQ_KEY"]
    assert back.body == record.body
    kept = {name: one for name, one in back.properties.items() if not name.startswith("amqp.")}
    assert kept == record.properties
    assert back.born == record.born
    assert entry.key == (record.properties.get("KEYS", "").split(" ")[0] or None)


@st.composite
def amqp_properties(draw: st.DrawFn) -> Properties:
    given = draw(users_own)
    if draw(st.booleans()):
        given["KEYS"] = draw(words)
    text = st.none() | texts.filter(bool)
    return Properties(
        content_type=draw(text),
        headers=HeaderTable.of(given) if given else None,
        delivery_mode=2,
        correlation_id=draw(text),
        reply_to=draw(text),
        message_id=draw(words),
        timestamp=draw(st.integers(0, 1 << 33)),
        type=draw(text),
    )


@given(amqp_properties(), st.binary(max_size=100), words)
def test_an_amqp_message_comes_back_from_a_rocketmq_consumer(
    sent: Properties, body: bytes, key: str
) -> None:
    entry = entry_of(make_content(sent, body), key)
    seen = take_record(encode_entry(entry))
    again = content_of(decode_entry(encode_record(seen)), entry.priority, 131072)

    assert seen.properties["TAGS"] == key
    assert body_of(again) == body
    given, back = properties_of(again), properties_of(make_content(sent, body))
    shown = given.headers.as_dict() if given.headers is not None else {}
    wanted = back.headers.as_dict() if back.headers is not None else {}
    assert shown == wanted
    assert replace(given, headers=None) == replace(back, headers=None)


@given(st.dictionaries(st.sampled_from(["$rocketmq.sysflag", "$rocketmq.reconsume"]), texts))
def test_no_amqp_publisher_can_write_what_the_broker_notes(headers: dict[str, str]) -> None:
    sent = Properties(headers=HeaderTable.of(headers) if headers else None)
    content = make_content(sent, b"")
    entry = entry_of(content, "k")

    assert not any(name.startswith("$rocketmq.") for name in entry.properties)
    back = content_of(decode_entry(encode_entry(entry)), entry.priority, 131072)
    assert properties_of(back) == properties_of(content)
