"""Properties of deliveries: looked up late, and otherwise like any others."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from headrace.client import BasicProperties
from headrace.client.properties import properties_map, received_properties

ROW: dict[str, Any] = {
    "tag": 3,
    "exchange": "orders",
    "key": "paid",
    "queue": "bills",
    "redelivered": True,
    "body": b"x",
    "properties": {
        "delivery_mode": 2,
        "message_id": "m-1",
        "routing_key": "paid",
        "headers": {"a": 1},
        "of a newer broker": True,
    },
}
SAME = BasicProperties(
    delivery_mode=2,
    message_id="m-1",
    headers={"a": 1},
    routing_key="paid",
    exchange="orders",
    queue="bills",
    delivery_tag=7,
    redelivered=True,
)


def test_every_field_is_there_and_those_not_sent_are_none() -> None:
    received = received_properties(ROW, 7)

    found = {field.name: getattr(received, field.name) for field in dataclasses.fields(received)}

    assert found == dataclasses.asdict(SAME)


def test_they_compare_with_those_a_program_makes() -> None:
    received = received_properties(ROW, 7)

    assert received == SAME
    assert SAME == received  # noqa: SIM300 - in both orders
    assert received != received_properties(ROW, 8)
    assert received != "m-1"


def test_they_can_be_changed_copied_and_pickled() -> None:
    received = received_properties(ROW, 7)
    received.message_id = "other"

    assert received.message_id == "other"
    assert ROW["properties"]["message_id"] == "m-1"
    assert copy.copy(received) == pickle.loads(pickle.dumps(received)) == received
    assert dataclasses.replace(received, message_id="m-1") == SAME


def test_they_can_be_published_as_they_came() -> None:
    assert properties_map(received_properties(ROW, 7)) == {
        "delivery_mode": 2,
        "message_id": "m-1",
        "headers": {"a": 1},
    }


def test_a_name_that_is_no_property_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no such property: colour"):
        received_properties(ROW, 7).colour  # type: ignore[attr-defined]  # noqa: B018


def test_their_repr_shows_what_is_set() -> None:
    assert "message_id='m-1'" in repr(received_properties(ROW, 7))
