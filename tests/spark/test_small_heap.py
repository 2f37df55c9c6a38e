"""A Java with little memory: what does not need it works, what needs it ends with one line."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headrace.topics
from headrace.client import ConnectionFactory
from headrace.testing import run_broker
from support.spark_lab.commands import ended, started

pytest.importorskip("pyspark")
SMALL = ("--conf", "spark.driver.memory=512m")
COUNT, SIZE = 400, 1 << 20


@pytest.mark.spark
def test_a_java_that_runs_out_of_memory_ends_the_command_with_one_line(tmp_path: Path) -> None:
    from headrace.spark.archive.layout import PARTITION_BY, SCHEMA, table_path
    from headrace.spark.lake.delta import open_table

    lake = tmp_path / "lake"
    open_table(table_path(lake), SCHEMA, PARTITION_BY)
    greedy = "SELECT collect_list(concat(id, repeat('x', 4000000))) FROM range(1000)"
    with started("sql", greedy, "--lake", str(lake), *SMALL, state=tmp_path) as process:
        code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err == (
        "headrace: Spark's Java process ran out of memory: increase it, for example with "
        "--conf spark.driver.memory=4g\n"
    )


@pytest.mark.spark  # a minute
def test_a_replay_for_which_java_has_no_room_ends_with_one_line(tmp_path: Path) -> None:
    with run_broker() as broker:
        url = broker.native_url
        with headrace.topics.open(url) as store:
            store.create("films")
            store.producer("films", token="t").append(b"x")
        greedy = "length(concat_ws(',', array_repeat(repeat('x', 1000000), 600))) > 0"
        options = ("spark.driver.memory=512m", "spark.driver.defaultJavaOptions=-Dx=1")
        confs = [one for option in options for one in ("--conf", option)]
        command = ("replay", "--url", url, "-t", "films", "--from", "2020-01-01", "--into", "",
                   "--routing-key", "q", "--yes", "--where", greedy, *confs)  # fmt: skip
        with started(*command, state=tmp_path) as process:
            code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err.startswith("headrace: Spark's Java process ran out of memory: increase it")
    assert err.count("\n") == 1


@pytest.mark.spark  # most of a gigabyte goes to the disk
def test_more_than_java_has_room_for_is_replayed(tmp_path: Path) -> None:
    with run_broker() as broker:
        assert broker.native_port is not None
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with headrace.topics.open(url) as store:
            store.create("films")
            producer = store.producer("films", token="t")
            for _ in range(COUNT // 10):
                films = [headrace.topics.NewMessage(os.urandom(SIZE)) for _ in range(10)]
                producer.append_many(films)
        with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
            channel = connection.create_channel()
            channel.queue_declare("again", durable=True)
            until = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
            command = ("replay", "--url", url, "-t", "films", "--from", "2020-01-01", "--to", until,
                       "--into", "", "--routing-key", "again", "--rate", "100000", "--yes",
                       "--json", *SMALL)  # fmt: skip
            for sent, before in ((COUNT, 0), (0, COUNT)):
                with started(*command, state=tmp_path) as process:
                    code, out, err = ended(process)
                assert code == 0, err
                assert json.loads(out) == {"found": COUNT, "sent": sent, "sent_before": before}
            assert channel.queue_declare("again", durable=True).messages == COUNT
