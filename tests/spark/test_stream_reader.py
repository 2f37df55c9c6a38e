"""Which rows a batch of a stream takes, asked of the reader itself: no session is needed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.spark.errors import DataLost
from headrace.spark.offsets import StreamOffset
from headrace.spark.options import read_options
from headrace.spark.reader import BatchReader, FilteringReader, StreamReader, Task
from headrace.testing import RunningBroker, run_broker, wait_for
from headrace.wire.native.payloads import Op

Ranges = list[tuple[str, int, int, int]]


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        yield broker


@pytest.fixture
def bulk(broker: RunningBroker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=broker.native_port)) as connection:
        yield connection


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


def append(bulk: BulkConnection, topic: str, lane: str, count: int) -> None:
    bulk.call(Op.APPEND, topic=topic, batch=[{"priority": lane, "body": b"x"}] * count)


def ranges(tasks: object) -> Ranges:
    found = [one.part for one in tasks if isinstance(one, Task)]  # type: ignore[attr-defined]
    return [(one.source, one.partition, one.start, one.end) for one in found]


def test_batches_are_filled_high_then_middle_then_low(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    bulk.call(Op.TOPIC_DECLARE, name="lanes", queues=1)
    for lane in ("low", "middle", "high"):
        append(bulk, "lanes", lane, 10)
    stream = StreamReader(read_options({"url": url_of(broker), "topic": "lanes"}))
    middle, high, low = 0, 1, 2  # the partitions
    at = stream.initialOffset()
    uuid = bulk.sources([{"topic": "lanes"}])[0].uuid
    batches = []
    for number in range(4):
        if number == 2:
            append(bulk, "lanes", "high", 3)  # what is urgent overtakes what waits
        end = stream.latestOffset(at, ReadMaxRows(12))
        assert StreamOffset.from_json(end).sources["lanes"].uuid == uuid
        batches.append({part: last - first for _, part, first, last in
                        ranges(stream.partitions(at, end))})  # fmt: skip
        at = end
    assert batches == [
        {high: 10, middle: 2},
        {middle: 8, low: 4},
        {high: 3, low: 6},
        {},
    ]


def test_available_now_ends_where_everything_ended_when_it_began(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    bulk.call(Op.TOPIC_DECLARE, name="now", queues=1)
    append(bulk, "now", "middle", 5)
    stream = StreamReader(read_options({"url": url_of(broker), "topic": "now"}))
    stream.prepareForTriggerAvailableNow()
    append(bulk, "now", "middle", 5)
    append(bulk, "now", "high", 5)
    at = stream.initialOffset()
    end = stream.latestOffset(at, ReadAllAvailable())
    assert ranges(stream.partitions(at, end)) == [("now", 0, 0, 5)]
    assert ranges(stream.partitions(end, stream.latestOffset(end, ReadAllAvailable()))) == []


def test_a_finite_query_holds_nothing_behind_its_last_batch(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    """Spark asks once more where the stream ends when the last batch is in the commit log."""
    bulk.call(Op.TOPIC_DECLARE, name="finite", queues=1)
    append(bulk, "finite", "middle", 10)
    options = {"url": url_of(broker), "topic": "finite", "group": "finite-query"}

    def run(stream: StreamReader, *, upto: int) -> list[object]:
        """The calls of Spark for a query with batches of five; where the pin is after each."""
        stream.prepareForTriggerAvailableNow()
        at, seen = stream.initialOffset(), []
        for _ in range(upto):
            end = stream.latestOffset(at, ReadMaxRows(5))
            if at != end:
                stream.partitions(at, end)
            seen.append(pinned(bulk, "finite-query"))
            at = end
        return seen

    assert run(StreamReader(read_options(options)), upto=3) == [0, 0, 10]


def test_a_pin_that_another_reader_of_the_query_has_moved_is_left_alone(
    broker: RunningBroker, bulk: BulkConnection
) -> None:
    """A query that reads a source twice has one pin for both: the first is the one behind."""
    bulk.call(Op.TOPIC_DECLARE, name="shared", queues=1)
    append(bulk, "shared", "middle", 5)
    options = {"url": url_of(broker), "topic": "shared", "group": "shared-query"}
    first, second = (StreamReader(read_options(options)) for _ in range(2))
    first.prepareForTriggerAvailableNow()
    append(bulk, "shared", "middle", 1)
    second.prepareForTriggerAvailableNow()
    at = first.initialOffset()
    assert second.initialOffset() == at
    ends = [one.latestOffset(at, ReadAllAvailable()) for one in (first, second)]
    for one, end in zip((first, second), ends, strict=True):
        one.partitions(at, end)
    for one, end in zip((first, second), ends, strict=True):
        one.latestOffset(end, ReadAllAvailable())
    assert pinned(bulk, "shared-query") == 5


def pinned(bulk: BulkConnection, query: str) -> int:
    [found] = [int(pin.positions["0"]) for pin in bulk.pins() if pin.query == query]
    return found


def test_several_sources_at_once(broker: RunningBroker, bulk: BulkConnection) -> None:
    for name, count in (("one", 3), ("two", 4)):
        bulk.call(Op.TOPIC_DECLARE, name=name, queues=1)
        append(bulk, name, "middle", count)
    options = {
        "url": url_of(broker),
        "topic": "one, two",
        "startingOffsets": '{"one": {"0": 1}, "two": {"0": -2}}',
        "endingOffsets": '{"two": {"0": 3}}',
    }
    found = ranges(BatchReader(read_options(options)).partitions())
    assert found == [("one", 0, 1, 3), ("two", 0, 0, 3)]


def test_ranges_of_time(broker: RunningBroker, bulk: BulkConnection) -> None:
    bulk.call(Op.QUEUE_DECLARE, name="timed", durable=True)
    moments = []
    message = {"exchange": "", "key": "timed", "properties": {"delivery_mode": 2}, "body": b"x"}
    for _ in range(3):
        bulk.call(Op.PUBLISH, batch=[message] * 10)
        stored = bulk.sources([{"queue": "timed"}])[0].ranges[0].last_time
        assert stored is not None
        wait_for(lambda: time.time() * 1000 > stored + 1)  # noqa: B023 - another millisecond
        moments.append(stored + 1)
    options = {"url": url_of(broker), "queue": "timed"}

    def read(**more: str) -> Ranges:
        return ranges(BatchReader(read_options({**options, **more})).partitions())

    first, second, _ = moments
    assert read(startingTimestamp=str(first)) == [("timed", 0, 10, 30)]
    assert read(endingTimestamp=str(second)) == [("timed", 0, 0, 20)]
    as_text = datetime.fromtimestamp(first / 1000, UTC).isoformat()
    assert read(startingTimestamp=as_text, endingTimestamp=str(second)) == [("timed", 0, 10, 20)]

    def narrowed(*filters: object) -> Ranges:
        reader = FilteringReader(read_options({**options, "pushFilters": "true"}))
        assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark looks again
        return ranges(reader.partitions())

    at = datetime.fromtimestamp(second / 1000, UTC)
    assert narrowed(GreaterThanOrEqual(("timestamp",), at)) == [("timed", 0, 20, 30)]
    assert narrowed(LessThan(("timestamp",), at)) == [("timed", 0, 0, 20)]
    assert narrowed(GreaterThan(("offset",), 4), LessThan(("offset",), 9)) == [("timed", 0, 5, 9)]
    assert narrowed(EqualTo(("offset",), 7)) == [("timed", 0, 7, 8)]
    assert narrowed(In(("partition",), (1, 2))) == []
    assert narrowed(EqualTo(("priority",), "high")) == [("timed", 0, 0, 30)]  # not ours to narrow


@pytest.mark.parametrize(
    ("position", "going_on"),
    [
        ({"next": {"0": 5}}, None),  # of a checkpoint from before there were epochs
        ({"next": {"0": 9}}, 0),
        ({"next": {"0": 5}, "epochs": {"0": 0}}, None),
        ({"next": {"0": 5}, "epochs": {"0": 1234}}, 0),  # of another copy of this log
        ({"next": {"0": 5, "1": 7}, "epochs": {"0": 0, "1": 0}}, 5),  # no such partition here
    ],
)
def test_positions_that_the_broker_does_not_have(
    broker: RunningBroker, bulk: BulkConnection, position: dict[str, object], going_on: int | None
) -> None:
    topic = f"seen_{uuid4().hex[:12]}"
    bulk.call(Op.TOPIC_DECLARE, name=topic, queues=1)
    append(bulk, topic, "middle", 5)
    uuid = bulk.sources([{"topic": topic}])[0].uuid
    start = {"version": 1, "query": "q", "sources": {topic: {"uuid": uuid, **position}}}
    options = {"url": url_of(broker), "topic": topic}
    strict = StreamReader(read_options(options))
    loose = StreamReader(read_options({**options, "failOnDataLoss": "false"}))

    if going_on is not None:
        with pytest.raises(DataLost, match="were read, but the broker no longer has them"):
            strict.latestOffset(start, ReadAllAvailable())
        rows = ranges(loose.partitions(start, loose.latestOffset(start, ReadAllAvailable())))
        assert rows == ([(topic, 0, going_on, 5)] if going_on < 5 else [])
    else:
        end = strict.latestOffset(start, ReadAllAvailable())
        assert StreamOffset.from_json(end).sources[topic].epochs == {0: 0}
