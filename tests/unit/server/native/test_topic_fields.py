"""Batches to be appended: looked at as a whole or one by one, what comes out is the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadTopicValue, BodyTooLarge, BrokerError, CommandInvalid
from headrace.model.topics.message_priority import Priority
from headrace.server.native.topic_fields import entries_of
from headrace.store.topics.types import Entry, UniformEntries
from headrace.wire.native.payloads import Op, Request

LARGEST = 4
PRIORITIES = st.sampled_from(("high", "middle", "low"))
BODIES = st.binary(max_size=LARGEST)


def entries(*batch: object, **others: object) -> list[Entry]:
    fields = {"rid": 1, "batch": list(batch), "token": "p", **others}
    return list(entries_of(Request(Op.APPEND, fields), LARGEST))


def one_by_one(*batch: dict[str, Any]) -> list[Entry]:
    return [one for fields in batch for one in entries_of(_single(fields), LARGEST)]


def _single(fields: dict[str, Any]) -> Request:
    return Request(Op.APPEND, {"rid": 1, "token": "p", **fields})


FIELDS = st.one_of(
    st.fixed_dictionaries({"body": BODIES}),
    st.fixed_dictionaries({"body": BODIES, "priority": PRIORITIES}),
    st.fixed_dictionaries({"body": BODIES, "priority": st.none()}),
    st.fixed_dictionaries({"body": BODIES, "key": st.text("ab", max_size=2)}),
    # What is refused.
    st.fixed_dictionaries({"body": st.binary(min_size=LARGEST + 1, max_size=LARGEST + 2)}),
    st.fixed_dictionaries({"body": st.none() | st.text("ab")}),
    st.fixed_dictionaries({"body": BODIES, "priority": st.sampled_from(("urgent", 1, [], b"low"))}),
    st.just({}),
)


@given(st.lists(FIELDS, max_size=6) | st.lists(st.fixed_dictionaries({"body": BODIES})))
def test_a_batch_is_what_its_messages_are(batch: list[dict[str, Any]]) -> None:
    try:
        expected = one_by_one(*batch)
    except BrokerError as error:
        with pytest.raises(type(error)) as told:
            entries(*batch)
        assert str(told.value) == str(error)
    else:
        assert entries(*batch) == expected


def test_the_usual_batch_is_not_looked_at_one_by_one() -> None:
    for batch in ([{"body": b"a"}, {"body": b""}], [{"body": b"a", "priority": "high"}] * 2):
        found = entries_of(Request(Op.APPEND, {"rid": 1, "batch": batch}), LARGEST)
        assert isinstance(found, UniformEntries)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"body": "text"}, CommandInvalid),
        ({"body": b"12345"}, BodyTooLarge),
        ({"body": b"", "priority": "urgent"}, BadTopicValue),
        ({"body": b"", "priority": True}, BadTopicValue),
        ({"body": b"", "born": "now"}, BadTopicValue),
    ],
)
def test_one_wrong_message_refuses_the_batch(
    wrong: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        entries({"body": b"good"}, wrong, {"body": b"good"})


def test_a_batch_is_an_array_of_maps() -> None:
    with pytest.raises(CommandInvalid, match="array of maps"):
        entries({"body": b""}, 7)
    assert entries() == []
    assert entries({"body": b"x", "priority": "low"}) == [Entry(b"x", Priority.LOW, "p")]
