"""Arrow batches of stored messages, against decoding them one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.bulk.decode.batches import cut
from headrace.bulk.decode.records import Records, rows_of
from headrace.bulk.decode.schema import COLUMNS
from headrace.bulk.read_plan import ReadPlan
from headrace.model.record_columns import RecordColumns
from headrace.model.topics.message_priority import Priority
from headrace.store.api.message_log import OutgoingMessages, RecordDestination
from headrace.store.log import record as r
from headrace.store.topics.entry import encode_entry
from headrace.store.topics.types import Entry
from headrace.wire.amqp.content import make_content
from headrace.wire.amqp.properties import HeaderTable, Properties
from headrace.wire.record_layout import inner_seed, segment_seed
from support.example_counts import examples

SEED = segment_seed(1 << 20)
Rows = list[dict[str, object]]

short = st.text(max_size=20).filter(lambda text: len(text.encode()) < 100)
plain = st.one_of(short, st.integers(-5, 5), st.booleans())
nested = st.lists(
    st.dictionaries(short, plain | st.lists(plain, max_size=2), max_size=2), max_size=2
)
headers = st.dictionaries(short, plain | nested, max_size=4)
properties = st.builds(
    Properties,
    content_type=st.none() | short,
    headers=st.none() | headers.map(HeaderTable.of),
    delivery_mode=st.none() | st.integers(1, 2),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | short,
    message_id=st.none() | short,
    timestamp=st.none() | st.integers(0, 1 << 40),
    app_id=st.none() | short,
)
bodies = st.binary(max_size=40)
messages = st.tuples(properties, bodies, st.sampled_from([0, 16, 131072]))
entries = st.builds(
    Entry,
    body=bodies,
    token=st.sampled_from(["", "appid-1;sid-2"]),
    key=st.none() | short,
    tags=st.none() | short,
    source_ip=st.none() | st.sampled_from(["10.0.0.1", "::1"]),
    message_id=st.none() | short,
    born=st.none() | st.integers(0, 4_000_000_000_000),
    properties=st.dictionaries(short, short, max_size=3),
)


def segment(records: list[list[bytes]], grouped: bool) -> tuple[bytes, Records]:
    """Records as they lie in a segment, and where they are."""
    data, positions, firsts, stops, offset = b"", [], [], [], 5
    for contents in records:
        out = OutgoingMessages(
            contents,
            [RecordDestination(3, offset, len(contents))],
            2,
            exchange="ex",
            key="a.b",
            channel_number=1,
        )
        seed = inner_seed(SEED) if grouped else SEED
        parts, _ = r.messages_parts(out, seed=seed, time=1_700_000_000_123)
        positions.append(len(data))
        firsts.append(offset)
        offset += len(contents)
        stops.append(offset)
        data += b"".join(parts)
    columns = [np.array(one, np.int64) for one in (positions, firsts, firsts, stops)]
    return data, RecordColumns(0, SEED, *columns)


def plan_of(kind: str, lane: str = "") -> ReadPlan:
    return ReadPlan(kind, "src", 7, lane, list(COLUMNS), 0, ())


def decoded(data: bytes, part: Records, job: ReadPlan) -> Rows:
    rows, damaged = rows_of(np.frombuffer(data, np.uint8), part)
    assert not damaged
    found = cut(rows, job)
    return [row for batch in found for row in batch.to_pylist()]


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.lists(messages, min_size=1, max_size=5), min_size=1, max_size=5), st.booleans())
def test_contents_of_queues(
    records: list[list[tuple[Properties, bytes, int]]], group: bool
) -> None:
    made = [[make_content(p, body, frame_max=size) for p, body, size in one] for one in records]
    data, part = segment(made, group)
    rows = decoded(data, part, plan_of("queue"))
    flat = [one for record in records for one in record]
    assert [row["offset"] for row in rows] == list(range(5, 5 + len(flat)))
    for row, (given_properties, body, _) in zip(rows, flat, strict=True):
        assert row["body"] == body
        assert row["message_id"] == given_properties.message_id
        assert (row["exchange"], row["routing_key"]) == ("ex", "a.b")
        assert (row["source"], row["partition"]) == ("src", 7)
        priority = given_properties.priority
        label = "middle" if priority is None or 4 <= priority <= 5 else "high"
        assert row["priority"] == ("low" if priority is not None and priority < 4 else label)
        shown = dict(row["properties"])  # type: ignore[call-overload]
        expected = given_properties.as_dict()
        table = expected.pop("headers", {})
        known = {name: str(value) for name, value in expected.items()}
        assert isinstance(table, dict)
        named = {f"header.{k}" if k in known else k: v for k, v in table.items()}
        for name, value in named.items():  # tables and lists are JSON
            if isinstance(value, list):
                assert json.loads(shown.pop(name)) == value
            else:
                assert shown.pop(name) == str(value)
        assert shown == known


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.lists(entries, min_size=1, max_size=5), min_size=1, max_size=5))
def test_entries_of_topics(records: list[list[Entry]]) -> None:
    data, part = segment([[encode_entry(one) for one in record] for record in records], False)
    rows = decoded(data, part, plan_of("topic", Priority.HIGH.label))
    flat = [one for record in records for one in record]
    for row, entry in zip(rows, flat, strict=True):
        assert row["body"] == entry.body
        assert (row["key"], row["tags"]) == (entry.key, entry.tags)
        assert row["message_id"] == entry.message_id
        assert row["priority"] == "high"
        assert row["born"] == moment(entry.born)
        own = {"token": entry.token} if entry.token else {}
        own |= {"source_ip": entry.source_ip} if entry.source_ip is not None else {}
        named = {f"header.{k}" if k in own else k: v for k, v in entry.properties.items()}
        assert dict(row["properties"]) == {**own, **named}  # type: ignore[call-overload]


@given(st.data())
def test_a_range_begins_and_ends_within_records(data: st.DataObject) -> None:
    contents = [[make_content(Properties(), b"%d" % n)] * 4 for n in range(3)]
    stored, part = segment(contents, False)
    low = data.draw(st.integers(5, 17))
    high = data.draw(st.integers(low, 17))
    wanted = part._replace(
        low_offsets=np.maximum(part.low_offsets, low),
        high_offsets=np.minimum(part.high_offsets, high),
    )
    rows = decoded(stored, wanted, plan_of("queue"))
    assert [row["offset"] for row in rows] == list(range(low, high))


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_reported_and_never_delivered(place: int, bit: int) -> None:
    contents = [[make_content(Properties(message_id="m"), b"body %d" % n)] * 3 for n in range(4)]
    stored, part = segment(contents, False)
    clean = decoded(stored, part, plan_of("queue"))
    hurt = bytearray(stored)
    hurt[place % len(hurt)] ^= 1 << bit
    rows, damaged = rows_of(np.frombuffer(bytes(hurt), np.uint8), part)
    found = cut(rows, plan_of("queue"))
    shown = {row["offset"]: row for batch in found for row in batch.to_pylist()}
    assert set(shown) | set(damaged) == {row["offset"] for row in clean}
    for row in clean:  # what is shown is what was stored; padding may change
        if row["offset"] in shown:
            assert shown[row["offset"]] == row
