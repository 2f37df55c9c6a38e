"""Queues read by offset, and topics as sources of Spark, of any RocketMQ: the fixture `server`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace.rocketmq import Message, MessageExt, QueueReader, TopicNotFoundError
from headrace.spark.errors import SourceChanged, SparkError
from headrace.spark.options import ReadOptions, read_options
from headrace.spark.reader import BatchReader, StreamReader, Task
from headrace.wire.remoting.headers.offsets import OffsetResult, QueryConsumerOffset
from support.raw_remoting import Link, Site
from support.rocketmq.protocol_checks import accepted
from support.rocketmq.sdk_scenarios import Scene

Row = dict[str, Any]
QUEUES = 3


@pytest.fixture
def scene(server: Site) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(server.name_address, stack)


@pytest.fixture
def topic(scene: Scene) -> str:
    return scene.topic(QUEUES)


@pytest.fixture
def reader(server: Site) -> Iterator[QueueReader]:
    with QueueReader(server.name_address) as made:
        yield made


def fill(scene: Scene, topic: str, start: int, count: int) -> None:
    """One message after the other to the queues in turn."""
    producer = scene.producer()
    queues = sorted(producer.queues(topic))
    for number in range(start, start + count):
        message = Message(
            topic,
            f"m{number}".encode(),
            tags="odd" if number % 2 else "even",
            keys=f"k{number}",
            properties={"n": str(number)},
        )
        producer.send(message, queue=queues[number % len(queues)])


def bodies(found: Iterator[list[MessageExt]]) -> list[str]:
    return [one.body.decode() for batch in found for one in batch]


# -- by offset -------------------------------------------------------------------------------------


def test_ranges_of_a_queue(scene: Scene, reader: QueueReader, topic: str) -> None:
    fill(scene, topic, 0, 120)
    queue = reader.queues(topic)[1]
    wanted = [f"m{number}" for number in range(1, 120, QUEUES)]

    assert (reader.min_offset(queue), reader.max_offset(queue)) == (0, 40)
    assert bodies(reader.read(queue, 0, 40)) == wanted
    assert bodies(reader.read(queue, 0, 40, pull_size=7)) == wanted
    assert bodies(reader.read(queue, 13, 15)) == wanted[13:15]
    assert bodies(reader.read(queue, 40, 40)) == []


def test_the_first_message_of_a_time(scene: Scene, reader: QueueReader, topic: str) -> None:
    fill(scene, topic, 0, 60)
    queue = reader.queues(topic)[0]
    stored = [one.store_timestamp for batch in reader.read(queue, 0, 20) for one in batch]

    for moment in (stored[0] - 1, *stored, stored[-1] + 1):
        first = next((at for at, stamp in enumerate(stored) if stamp >= moment), len(stored))
        assert reader.offset_by_time(queue, moment) == first


def test_a_topic_that_is_not_there_cannot_be_read(reader: QueueReader) -> None:
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        reader.queues("nowhere")


# -- Spark -----------------------------------------------------------------------------------------


def options(server: Site, topic: str, **given: str) -> ReadOptions:
    return read_options({"url": f"rocketmq://{server.name_address}", "topic": topic, **given})


def rows(reader: BatchReader | StreamReader, tasks: object) -> list[Row]:
    found: list[Row] = []
    for task in tasks:  # type: ignore[attr-defined]
        assert isinstance(task, Task)
        for batch in reader.read(task):
            found += batch.to_pylist()
    return found


def table(server: Site, topic: str, **given: str) -> list[Row]:
    reader = BatchReader(options(server, topic, **given))
    return rows(reader, reader.partitions())


def numbers(found: list[Row]) -> list[int]:
    return sorted(int(row["body"][1:]) for row in found)


def test_a_topic_is_a_table(server: Site, scene: Scene, topic: str) -> None:
    fill(scene, topic, 0, 30)
    found = {row["body"]: row for row in table(server, topic, rowsPerTask="4")}
    row = found[b"m7"]

    assert len(found) == 30
    assert (row["source"], row["partition"], row["offset"]) == (
        f"{topic}@{server.broker_name}",
        1,
        2,
    )
    assert (row["key"], row["tags"], row["priority"]) == ("k7", "odd", "middle")
    assert dict(row["properties"])["n"] == "7"
    assert row["message_id"] and row["timestamp"] and row["born"]
    assert row["exchange"] is row["routing_key"] is None


def test_a_table_of_chosen_rows(server: Site, scene: Scene, topic: str) -> None:
    fill(scene, topic, 0, 30)
    positions = json.dumps({topic: {"0": 8, "1": 9, "2": -1}})

    assert numbers(table(server, topic, tags="odd")) == list(range(1, 30, 2))
    assert numbers(table(server, topic, selector="n > 27 AND TAGS = 'odd'")) == [29]
    assert numbers(table(server, topic, startingOffsets=positions)) == [24, 27, 28]
    assert list(table(server, topic, columns="offset")[0]) == ["offset"]


def test_a_stream_has_every_message_once(server: Site, scene: Scene, topic: str) -> None:
    """A batch that is read again is the same; a new reader goes on from the checkpoint."""
    fill(scene, topic, 0, 50)
    stream = StreamReader(options(server, topic, maxRowsPerTrigger="20"))
    at = json.loads(json.dumps(stream.initialOffset()))
    seen: list[int] = []
    for round_ in range(6):
        end = json.loads(json.dumps(stream.latestOffset(at, stream.getDefaultReadLimit())))
        found = rows(stream, stream.partitions(at, end))
        assert found == rows(stream, stream.partitions(at, end))
        assert len(found) <= 20
        seen += numbers(found)
        stream.commit(end)
        at = end
        if round_ == 3:
            fill(scene, topic, 50, 15)
            stream = StreamReader(options(server, topic, maxRowsPerTrigger="20"))

    assert sorted(seen) == list(range(65))


def test_a_stream_with_a_group_commits_its_position_to_the_broker(
    server: Site, scene: Scene, topic: str
) -> None:
    fill(scene, topic, 0, 30)
    stream = StreamReader(options(server, topic, group=scene.group))
    begin = stream.initialOffset()
    stream.commit(stream.latestOffset(begin, stream.getDefaultReadLimit()))
    with Link(server.broker_address) as link:
        answer = accepted(link.ask(QueryConsumerOffset(scene.group, topic, 2)))

    assert OffsetResult.take(answer.ext).offset == 10


def test_a_topic_that_has_become_shorter_ends_the_stream(
    server: Site, scene: Scene, topic: str
) -> None:
    fill(scene, topic, 0, 9)
    stream = StreamReader(options(server, topic))
    at: dict[str, Any] = json.loads(json.dumps(stream.initialOffset()))
    at["sources"][f"{topic}@{server.broker_name}"]["next"]["1"] = 4

    with pytest.raises(SourceChanged, match="was created again"):
        stream.latestOffset(at, stream.getDefaultReadLimit())


def test_unreadable_files_are_reported(server: Site) -> None:
    with pytest.raises(SparkError, match="nowhere"):
        table(server, "nowhere")
