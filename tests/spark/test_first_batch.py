"""What a stream asks of a broker, without Spark: the first batch is the same when repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.spark.errors import CheckpointLost
from headrace.spark.options import read_options
from headrace.spark.reader import StreamReader
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


@pytest.fixture
def bulk(broker: RunningBroker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=broker.native_port)) as connection:
        yield connection


def reader(broker: RunningBroker, **options: str) -> StreamReader:
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    return StreamReader(read_options({"url": url, **options}))


def publish(bulk: BulkConnection, queue: str, count: int) -> None:
    bulk.call(Op.QUEUE_DECLARE, name=queue, durable=True)
    message = {"exchange": "", "key": queue, "properties": {"delivery_mode": 2}, "body": b"x"}
    bulk.call(Op.PUBLISH, batch=[message] * count)


def planned(stream: StreamReader, start: dict[str, object], end: dict[str, object]) -> object:
    return [(task.part.start, task.part.end) for task in stream.partitions(start, end)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", [None, "named"])
@pytest.mark.parametrize("was_planned", [False, True])
def test_a_first_batch_that_is_repeated_begins_where_it_began(
    broker: RunningBroker, bulk: BulkConnection, group: str | None, was_planned: bool
) -> None:
    queue = f"latest-{group}-{was_planned}"
    options = {"queue": queue, "startingOffsets": "latest"}
    if group is not None:
        options["group"] = f"{group}-{was_planned}"
    publish(bulk, queue, 5)
    first = reader(broker, **options)
    start = first.initialOffset()
    publish(bulk, queue, 3)
    end = first.latestOffset(start, first.getDefaultReadLimit())  # Spark notes this, and is killed
    if was_planned:
        assert planned(first, start, end) == [(5, 8)]
    publish(bulk, queue, 4)
    again = reader(broker, **options)
    assert planned(again, again.initialOffset(), end) == [(5, 8)]
    later = again.latestOffset(end, again.getDefaultReadLimit())
    assert planned(again, end, later) == [(8, 12)]
    pins = [pin for pin in bulk.pins() if pin.name == queue]
    assert len(pins) == 1  # those of the runs that were killed are gone
    assert pins[0].query == end["query"]


def test_a_query_killed_before_its_first_batch_was_noted_begins_again(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    publish(bulk, "early", 2)
    first = reader(broker, queue="early", group="early")
    start = first.initialOffset()
    first.latestOffset(start, first.getDefaultReadLimit())
    again = reader(broker, queue="early", group="early")
    start = again.initialOffset()
    end = again.latestOffset(start, again.getDefaultReadLimit())
    assert planned(again, start, end) == [(0, 2)]
    third = reader(broker, queue="early", group="early")
    start = third.initialOffset()
    with pytest.raises(CheckpointLost, match="headrace pin delete early"):
        third.latestOffset(start, third.getDefaultReadLimit())


def test_sources_of_one_query_have_pins_of_their_own(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    for queue in ("left", "right"):
        publish(bulk, queue, 1)
    streams = [reader(broker, queue=queue, group="both") for queue in ("left", "right")]
    starts = [stream.initialOffset() for stream in streams]
    ends = [
        stream.latestOffset(start, stream.getDefaultReadLimit())
        for stream, start in zip(streams, starts, strict=True)
    ]
    for stream, start, end in zip(streams, starts, ends, strict=True):
        assert planned(stream, start, end) == [(0, 1)]
    pins = [(pin.query, pin.name) for pin in bulk.pins() if pin.query.startswith("both")]
    assert pins == [("both", "left"), ("both", "right")]
