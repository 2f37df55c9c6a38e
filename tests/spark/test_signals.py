"""A signal to the whole process group: one line, the right exit code, and nothing twice later."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headrace.topics
from headrace.client import ConnectionFactory
from headrace.testing import RunningBroker, run_broker, wait_for
from support.process_state import descendants, is_running
from support.spark_lab.commands import SECONDS, ended, started, until_java

pytest.importorskip("pyspark")
COUNT = 1000
PIPELINE = """
name = "copy"
url = "{url}"
[sources.events]
topic = "events"
max_rows_per_trigger = 100
[sinks.table]
type = "delta"
path = "{path}"
"""


def url_of(broker: RunningBroker) -> str:
    return f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        with headrace.topics.open(url_of(broker)) as store:
            store.create("events")
            append(store, range(COUNT))
        yield broker


def append(store: headrace.topics.Store, numbers: range) -> None:
    new = [headrace.topics.NewMessage(b"%d" % n) for n in numbers]
    store.producer("events", token="t").append_many(new)


def bodies(table: Path) -> Counter[bytes]:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return Counter(DeltaTable(str(table)).to_pyarrow_table()["body"].to_pylist())
    except TableNotFoundError:
        return Counter()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.spark)]
)
def test_a_stopped_archive_finishes_its_round(
    broker: RunningBroker, tmp_path: Path, number: signal.Signals
) -> None:
    lake = tmp_path / "lake"
    command = ("archive", "--lake", str(lake), "--url", url_of(broker), "--json")
    with started(*command, "--every", "0.2", state=tmp_path) as process:
        wait_for(lambda: bodies(lake / "messages") or process.poll() is not None, SECONDS, 0.2)
        with headrace.topics.open(url_of(broker)) as store:
            append(store, range(COUNT, 2 * COUNT))
        os.killpg(process.pid, number)
        code, out, err = ended(process)
    assert (code, err) == (0, "")
    assert json.loads(out)["archived"] >= COUNT
    with started(*command, "--once", state=tmp_path) as process:
        assert ended(process)[0] == 0
    assert bodies(lake / "messages") == Counter(b"%d" % n for n in range(2 * COUNT))


def test_a_stopped_pipeline_finishes_its_batch(broker: RunningBroker, tmp_path: Path) -> None:
    file, table = tmp_path / "copy.toml", tmp_path / "table"
    file.write_text(PIPELINE.format(url=url_of(broker), path=table))
    with started("pipeline", "run", str(file), state=tmp_path) as process:
        wait_for(lambda: bodies(table) or process.poll() is not None, SECONDS, 0.1)
        os.killpg(process.pid, signal.SIGTERM)
        code, _, err = ended(process)
    assert code == 0, err
    assert all(json.loads(line)["pipeline"] == "copy" for line in err.splitlines())
    state = json.loads((tmp_path / "pipelines" / "copy.json").read_text())
    assert state["state"] == "stopped"
    assert [one["rows_per_second"] for one in state["queries"]] == [0.0]
    with started("pipeline", "run", str(file), "--once", state=tmp_path) as process:
        java = wait_for(lambda: descendants(process.pid, b"SparkSubmit"), SECONDS, 0.1)
        assert ended(process)[0] == 0
        assert not any(map(is_running, java))
    assert bodies(table) == Counter(b"%d" % n for n in range(COUNT))


def test_a_failed_pipeline_leaves_no_java_behind(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    steps = """[[steps]]
name = "broken"
sql = "SELECT raise_error('no') AS body FROM events"
[sinks"""
    text = PIPELINE.format(url=url_of(broker), path=tmp_path / "table")
    file.write_text(text.replace("[sinks", steps))
    with started("pipeline", "run", str(file), state=tmp_path) as process:
        java = wait_for(lambda: descendants(process.pid, b"SparkSubmit"), SECONDS, 0.1)
        code, _, err = ended(process)
        assert not any(map(is_running, java))
    assert code == 1
    assert err.startswith("headrace: pipeline copy, table: "), err


@pytest.mark.spark  # four sessions
def test_commands_start_from_an_archive_of_classes_and_without_when_it_is_damaged(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a Java that crashes writes its report
    file, table, classes = tmp_path / "copy.toml", tmp_path / "table", tmp_path / "a b" / "c.jsa"
    file.write_text(PIPELINE.format(url=url_of(broker), path=table))
    number = COUNT

    def run() -> None:
        nonlocal number
        with headrace.topics.open(url_of(broker)) as store:
            append(store, range(number, number + 10))
        number += 10
        command = ("pipeline", "run", str(file), "--once")
        with started(*command, state=tmp_path, classes=classes) as process:
            code, _, err = ended(process)
        assert code == 0, err
        assert bodies(table) == Counter(b"%d" % n for n in range(number))

    run()
    size = classes.stat().st_size
    assert size > 1 << 20
    run()
    assert classes.stat().st_size == size
    classes.chmod(0o600)
    os.truncate(classes, size // 3)  # Java 17 ends with SIGBUS then
    run()
    assert not classes.exists()
    classes.write_bytes(os.urandom(1000))
    run()


@pytest.mark.spark  # two sessions
def test_an_interrupted_replay_prints_how_to_continue(
    broker: RunningBroker, tmp_path: Path
) -> None:
    assert broker.native_port is not None
    until = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
    command = ("replay", "--url", url_of(broker), "-t", "events", "--from", "2020-01-01",
               "--to", until, "--into", "", "--routing-key", "again", "--yes",
               "--json")  # fmt: skip
    with ConnectionFactory("127.0.0.1", broker.native_port).new_connection() as connection:
        channel = connection.create_channel()
        channel.queue_declare("again", durable=True)

        def sent() -> int:
            return int(channel.queue_declare("again", durable=True).messages)

        with started(*command, "--rate", "50", state=tmp_path) as process:
            wait_for(lambda: sent() or process.poll() is not None, SECONDS, 0.1)
            os.killpg(process.pid, signal.SIGTERM)
            code, out, err = ended(process)
        assert (code, out) == (1, "")
        assert err.startswith("headrace: interrupted after ")
        assert err.endswith(
            f" of 1,000 messages: the same command with --to {until} continues from there\n"
        )
        first = sent()
        assert 0 < first < COUNT
        with started(*command, "--rate", "100000", state=tmp_path) as process:
            code, out, err = ended(process)
        assert code == 0, err
        assert json.loads(out) == {"found": COUNT, "sent": COUNT - first, "sent_before": first}
        assert sent() == COUNT


@pytest.mark.spark
def test_a_question_that_is_interrupted_ends_with_one_line(tmp_path: Path) -> None:
    from headrace.spark.archive.layout import PARTITION_BY, SCHEMA, table_path
    from headrace.spark.lake.delta import open_table

    lake = tmp_path / "lake"
    open_table(table_path(lake), SCHEMA, PARTITION_BY)
    endless = "SELECT count(*) FROM range(100000000000000)"
    with started("sql", endless, "--lake", str(lake), state=tmp_path) as process:
        until_java(process)
        os.killpg(process.pid, signal.SIGTERM)
        assert ended(process) == (1, "", "headrace: interrupted\n")
