"""Property maps <-> stored properties."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import PreconditionFailed
from headrace.wire.amqp.content import make_frames, properties_of
from headrace.wire.amqp.properties import Properties
from headrace.wire.native.properties import PropertyEncoder, encode_properties, shown_properties

EVERYTHING: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1, "b": [True, None, {"c": b"x"}], "d": 1.5, "e": 2**40},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "1000",
    "message_id": "m",
    "timestamp": 1_700_000_000_000,
    "type": "t",
    "user_id": "u",
    "app_id": "a",
}


def stored(properties: dict[str, Any]) -> Properties:
    return properties_of(make_frames(encode_properties(properties).header(3), b"abc", 1, 4096))


def test_every_property_survives() -> None:
    shown = shown_properties(stored(EVERYTHING)) | {"message_id": "m"}

    assert shown == EVERYTHING


def test_times_are_seconds_inside() -> None:
    assert stored({"timestamp": 1999}).timestamp == 1
    assert shown_properties(Properties(timestamp=2)) == {"timestamp": 2000, "delivery_mode": 1}


def test_a_time_too_far_to_show_is_cut() -> None:
    shown = shown_properties(Properties(timestamp=2**64 - 1))["timestamp"]

    assert isinstance(shown, int)
    assert 2**63 < shown < 2**64


def test_delivery_mode_is_always_shown() -> None:
    assert shown_properties(Properties()) == {"delivery_mode": 1}


def test_absent_and_shown_only_properties_are_left_out() -> None:
    assert encode_properties({"routing_key": "k", "type": None}) == encode_properties({})


def test_a_number_is_taken_as_expiration() -> None:
    assert stored({"expiration": 50}).expiration == "50"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content_type", 1),
        ("content_type", "x" * 256),
        ("headers", []),
        ("headers", {"x" * 256: 1}),
        ("headers", {"x": 2**64}),
        ("delivery_mode", 0),
        ("delivery_mode", 3),
        ("delivery_mode", True),
        ("priority", 256),
        ("priority", -1),
        ("expiration", 1.5),
        ("timestamp", -1),
        ("timestamp", "now"),
        ("cluster_id", "x"),
        ("colour", "red"),
    ],
)
def test_impossible_properties_are_refused(name: str, value: object) -> None:
    for encode in (encode_properties, PropertyEncoder().encode):
        with pytest.raises(PreconditionFailed, match=name):
            encode({name: value})


def test_headers_nested_too_deeply_are_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(40):
        deep = {"x": deep}

    with pytest.raises(PreconditionFailed, match="nested"):
        encode_properties({"headers": deep})


def test_an_encoder_remembers_without_confusing() -> None:
    encoder = PropertyEncoder()
    first = encoder.encode({"delivery_mode": 1, "type": "a"})

    assert encoder.encode({"delivery_mode": 1, "type": "a"}) is first
    assert encoder.encode({"type": "a", "delivery_mode": 1}) == first
    assert encoder.encode({"delivery_mode": 2, "type": "a"}).persistent
    with pytest.raises(PreconditionFailed):
        encoder.encode({"delivery_mode": True, "type": "a"})
    with pytest.raises(PreconditionFailed):
        encoder.encode({"type": ["a"]})


def test_nothing_is_no_properties() -> None:
    assert PropertyEncoder().encode(None) == encode_properties({})
