"""Readers on the broker's machine open its files themselves; the broker names them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.bulk.client import BulkConnection, ReadableSource
from headrace.bulk.read_plan import ReadPlan
from headrace.client.errors import HeadraceError
from headrace.client.settings import Settings
from headrace.wire.native.payloads import Op
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


def locate(bulk: BulkConnection, known: ReadableSource, /, **fields: object) -> dict[str, Any]:
    wanted = {"topic": known.name, "uuid": known.uuid, "start": 0, "end": ROWS, "seeds": True}
    return bulk.call(Op.LOCATE, **{**wanted, **fields})


def test_files_are_named_with_what_identifies_them(bulk: BulkConnection, name: Namer) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    found = locate(bulk, topic)
    plan = ReadPlan.decode(found["job"])
    assert (plan.source, plan.next, len(plan.pieces)) == (topic.name, ROWS, len(found["files"]))
    for path, device, inode in found["files"]:
        known = os.stat(path)
        assert (known.st_dev, known.st_ino) == (device, inode)
    assert found["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with pytest.raises(HeadraceError, match="does not know the sums"):
        locate(bulk, topic, seeds=False)


def test_descriptors_are_closed(bulk: BulkConnection, name: Namer) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    before = len(descriptors())
    for _ in range(5):
        locate(bulk, topic)
    assert len(descriptors()) == before


def test_what_fetch_refuses_is_refused(bulk: BulkConnection, name: Namer) -> None:
    topic = filled(bulk, name().replace("-", "_"))
    for wrong, code in (
        ({"uuid": "another"}, "source_changed"),
        ({"partition": 9}, "not_found"),
        ({"columns": ["no_such"]}, "precondition_failed"),
        ({"topic": "no_such"}, "no_such_topic"),
    ):
        with pytest.raises(HeadraceError) as caught:
            locate(bulk, topic, **wrong)
        assert caught.value.code == code
