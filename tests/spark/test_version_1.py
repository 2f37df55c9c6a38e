"""Streams go on exactly behind the checkpoint that version 1 wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table

from fixtures import contents
from fixtures.opening import Written, unpacked
from headrace.bulk.client import BulkConnection
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return unpacked("crashed", tmp_path)


@pytest.fixture
def broker(written: Written) -> Iterator[RunningBroker]:
    with run_broker(data_dir=written.data, clock=written.clock()) as broker:
        yield broker


def read(spark: Any, written: Written, url: str, kind: str, name: str) -> list[int]:  # noqa: ANN401
    """What the stream reads now."""
    table = written.directory / f"table-{kind}"
    rows = spark.readStream.format("headrace")
    rows = rows.options(url=url, group=f"stream-{kind}", **{kind: name}).load()
    query = (
        rows.select("body")
        .writeStream.format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", str(written.directory / f"checkpoint-{kind}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    files = table.glob("*.parquet")  # Spark itself would look for those of earlier batches
    return sorted(int(one) for file in files for one in read_table(file)["body"].to_pylist())


def test_a_stream_goes_on_behind_its_checkpoint(
    spark: Any,  # noqa: ANN401
    written: Written,
    broker: RunningBroker,
) -> None:
    first, count = contents.BEFORE_CHECKPOINT, contents.AFTER_CHECKPOINT
    with BulkConnection(Settings(port=broker.native_port)) as bulk:
        pins = {one.query: one for one in bulk.pins()}
    for query, name in (("stream-queue", "spark"), ("stream-topic", "sparked")):
        pin = pins[query]
        # A stream that ends with its last batch leaves that batch pinned.
        assert (pin.name, pin.lost, pin.messages) == (name, False, first + count)

    for kind, name in (("queue", "spark"), ("topic", "sparked")):
        found = read(spark, written, broker.native_url, kind, name)
        assert found == list(range(first, first + count))
