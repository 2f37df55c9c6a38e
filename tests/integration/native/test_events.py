"""The topic `$events`: what happened to which messages, when it is switched on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from headrace.bulk.client import BulkConnection
from headrace.client import ConnectionFactory
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker, wait_for


def events(broker: RunningBroker) -> list[Mapping[str, Any]]:
    with BulkConnection(Settings(port=broker.native_port or 0)) as bulk:
        try:
            part = bulk.sources([{"topic": "$events"}])[0].ranges[0]
        except (HeadraceError, KeyError):
            return []
        pieces = bulk.fetch(part.first, part.end, topic="$events", columns=["body"])
        data = b"".join(pieces)
    batches = pa.ipc.open_stream(data) if data else []
    return [json.loads(body) for batch in batches for body in batch.column("body").to_pylist()]


def ranges(found: list[Mapping[str, Any]], kind: str) -> list[tuple[str, int, int]]:
    return [
        (one["destination"], each["first"], each["last"])
        for one in found
        if one["kind"] == kind
        for each in one["ranges"]
    ]


@pytest.mark.parametrize("on", [True, False])
def test_what_happens_to_stored_messages_is_noted(on: bool) -> None:
    with run_broker(events=on) as broker:
        assert broker.native_port is not None
        factory = ConnectionFactory("127.0.0.1", broker.native_port)
        with factory.new_connection() as connection:
            channel = connection.create_channel()
            channel.queue_declare("dead", durable=True)
            channel.queue_declare(
                "q",
                durable=True,
                arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
            )
            stored, passing = {"delivery_mode": 2}, {"delivery_mode": 1}
            channel.publish_batch(("", "q", stored, b"x") for _ in range(5))
            channel.basic_publish("", "q", passing, b"not stored")
            taken = [channel.basic_get("q", auto_ack=False) for _ in range(6)]
            for one in taken[:3]:
                assert one is not None
                one.ack()
            assert taken[3] is not None
            taken[3].nack(requeue=False)
            assert taken[4] is not None
            taken[4].nack(requeue=True)
            again = channel.basic_get("q", auto_ack=True)
            assert again is not None
        if on:
            wait_for(lambda: ("q", 4, 4) in ranges(events(broker), "acknowledged"))
        broker.restart()  # what was noted and not written is written at the end
        found = events(broker)
        if not on:
            assert found == []
            return
        acknowledged = ranges(found, "acknowledged")
        assert {n for _, first, last in acknowledged for n in range(first, last + 1)} == {
            0,
            1,
            2,
            4,
        }
        assert ranges(found, "dead-lettered") == [("q", 3, 3)]
        assert ranges(found, "redelivered") == [("q", 4, 4)]
