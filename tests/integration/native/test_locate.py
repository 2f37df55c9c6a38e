"""Readers on the broker's machine open its files themselves; all others fetch, with one result."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.bulk.client import BulkConnection, ReadableSource, SegmentFiles
from headrace.bulk.mapped_segments import open_files
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.spark.backends import broker as reading
from headrace.spark.options import read_options
from headrace.spark.task_plan import TaskRange
from headrace.wire.native.payloads import Op
from support import brokers
from support.brokers import Broker
from support.native_types import Namer
from support.open_files import descriptors

ROWS = 300


@pytest.fixture
def bulk(broker: Broker) -> Iterator[BulkConnection]:
    with BulkConnection(Settings(port=broker.native_port)) as connection:
        yield connection


def filled(bulk: BulkConnection, name: str) -> ReadableSource:
    """A topic with some messages."""
    bulk.call(Op.TOPIC_DECLARE, name=name)
    bulk.call(
        Op.APPEND,
        topic=name,
        token="p",
        batch=[{"body": b"%d" % n, "key": f"k{n}", "tags": "t"} for n in range(ROWS)],
    )
    return bulk.sources([{"topic": name}])[0]


def located(
    bulk: BulkConnection, topic: ReadableSource, start: int = 0, end: int = ROWS
) -> SegmentFiles:
    found = bulk.locate(start, end, topic=topic.name, uuid=topic.uuid)
    assert found is not None
    return found


def test_files_and_frames_hold_the_same_rows(
    broker: Broker, bulk: BulkConnection, name: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
    backend = reading.BrokerBackend(read_options({"url": url, "topic": topic.name}))

    def rows(start: int, end: int) -> list[dict[str, object]]:
        part = TaskRange(topic.name, 0, start, end)
        return [row for batch in backend.batches(part, topic.uuid) for row in batch.to_pylist()]

    mapped = [rows(0, ROWS), rows(17, 101)]
    monkeypatch.setattr(reading, "open_files", lambda found: None)
    assert mapped == [rows(0, ROWS), rows(17, 101)]
    assert [row["body"] for row in mapped[1]] == [b"%d" % n for n in range(17, 101)]


def test_files_that_are_deleted_meanwhile_can_still_be_read(tmp_path: Path) -> None:
    running = brokers.start(tmp_path)
    try:
        with BulkConnection(Settings(port=running.native_port)) as bulk:
            found = located(bulk, filled(bulk, "t"))
            mapped = open_files(found)
            for path, _, _ in found.files:
                os.unlink(path)
            assert mapped is not None
            assert sum(batch.num_rows for batch in mapped) == ROWS
            assert open_files(found) is None  # who comes later fetches
    finally:
        running.kill()


def test_descriptors_are_closed(bulk: BulkConnection, name: Namer) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    before = len(descriptors())
    for _ in range(5):
        mapped = open_files(located(bulk, topic))
        assert mapped is not None
        assert sum(batch.num_rows for batch in mapped) == ROWS
        open_files(replace(located(bulk, topic), files=[("/nowhere", 1, 1)]))
    assert len(descriptors()) == before


def test_another_machine_and_another_file_are_not_taken_for_ours(
    bulk: BulkConnection, name: Namer, tmp_path: Path
) -> None:
    found = located(bulk, filled(bulk, name().replace("-", "_")))
    assert open_files(replace(found, boot="another machine")) is None
    (path, device, inode), *_ = found.files
    assert open_files(replace(found, files=[(path, device, inode + 1)])) is None
    assert open_files(replace(found, files=[(path, device + 1, inode)])) is None
    copy = tmp_path / "copy"
    copy.write_bytes(Path(path).read_bytes())
    assert open_files(replace(found, files=[(str(copy), device, inode)])) is None


def test_what_fetch_refuses_is_refused(bulk: BulkConnection, name: Namer) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    for wrong, code in (
        ({"uuid": "another"}, "source_changed"),
        ({"partition": 9}, "not_found"),
        ({"columns": ["no_such"]}, "precondition_failed"),
        ({"topic": "no_such"}, "no_such_topic"),
    ):
        with pytest.raises(HeadraceError) as caught:
            bulk.locate(0, ROWS, **{"topic": topic.name, **wrong})
        assert caught.value.code == code
