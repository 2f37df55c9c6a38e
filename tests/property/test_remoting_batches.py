"""Batches are taken apart in a hurry: what comes out is what one message after the other gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import MessageIllegal, PreconditionFailed
from headrace.server.remoting.message_mapping import TopicRecord, delay_of, encode_record
from headrace.server.remoting.send import entries_of
from headrace.wire.remoting.message import BatchElement, batch_bytes
from headrace.wire.remoting.message_ids import HostAddress
from headrace.wire.remoting.properties import UNIQ_KEY, take_properties

IDS = ["A" * 32, "B" * 32, "C" * 8, "é", "a\x01b"]
LARGEST = 50


def make(body: bytes, properties: dict[str, str], flag: int) -> TopicRecord:
    """As the broker does, with an id that is no surprise."""
    properties.setdefault(UNIQ_KEY, "made")
    return TopicRecord(body.upper() if len(body) > LARGEST else body, properties, flag, 0, 7,
                  HostAddress("10.0.0.1", 99))  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Properties, mostly of a few shapes; the last separator may be missing."""
    part = st.one_of(
        st.sampled_from(IDS).map(lambda one: f"{UNIQ_KEY}\x01{one}"),
        st.sampled_from(["TAGS\x01a", "TAGS\x01b", "KEYS\x01k1 k2", "KEYS\x01k", "WAIT\x01true"]),
        st.sampled_from([f"x{UNIQ_KEY}\x01y", UNIQ_KEY, f"{UNIQ_KEY}\x01", "", "DELAY\x010"]),
        st.text("ab\x01é", max_size=5),
    )
    parts = draw(st.lists(part, max_size=4))
    return ("\x02".join(parts) + draw(st.sampled_from(["\x02", ""]))).encode()


ELEMENTS = st.lists(
    st.builds(BatchElement, st.sampled_from([0, 0, 5]), st.binary(max_size=60), texts()),
    min_size=1,
    max_size=40,
)


def has_names(element: BatchElement) -> bool:
    """Whether every property has a name: else the broker would drop what it confirms."""
    parts = filter(None, element.properties.decode().split("\x02"))
    return all(part.find("\x01") > 0 for part in parts)


@given(ELEMENTS)
def test_a_batch_gives_the_entries_of_its_messages(elements: list[BatchElement]) -> None:
    if not all(map(has_names, elements)):
        with pytest.raises(MessageIllegal, match="has no name"):
            entries_of(batch_bytes(elements), make, LARGEST)
        return
    records = [
        make(one.body, take_properties(one.properties.decode("utf-8", "replace")), one.flag)
        for one in elements
    ]
    contents, first = entries_of(batch_bytes(elements), make, LARGEST)

    assert contents == [encode_record(record) for record in records]
    assert first == records[0].properties[UNIQ_KEY]


DELAYS = {
    "DELAY\x013": (3, 0),
    "TIMER_DELAY_MS\x01500": (0, 500),
    "TIMER_DELAY_SEC\x012": (0, 2000),
}


@given(ELEMENTS, st.integers(0, 40), st.sampled_from(list(DELAYS)))
def test_a_delay_in_a_batch_is_found_wherever_it_is(
    elements: list[BatchElement], place: int, delay: str
) -> None:
    late = BatchElement(0, b"late", f"{UNIQ_KEY}\x01{'A' * 32}\x02{delay}\x02".encode())
    elements = list(filter(has_names, elements))
    elements.insert(place, late)

    with pytest.raises(PreconditionFailed, match="delayed"):
        entries_of(batch_bytes(elements), make, LARGEST)
    assert delay_of(take_properties(delay), 0) == DELAYS[delay]
