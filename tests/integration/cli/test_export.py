"""`headrace export`: the same rows in every kind of file, and no half files."""

from __future__ import annotations

import csv
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from headrace.bulk.client import BulkConnection
from headrace.cli.main import main
from headrace.client.settings import Settings
from headrace.testing import RunningBroker, run_broker
from headrace.wire.native.payloads import Op

BODIES = [b"one", b'zwei \xc3\xa4, "quoted"\n', b"\xff\x00", b""]


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with run_broker() as broker:
        with BulkConnection(Settings(port=broker.native_port)) as bulk:
            for name in ("q", "both"):
                bulk.call(Op.QUEUE_DECLARE, name=name, durable=True)
            bulk.call(Op.TOPIC_DECLARE, name="both", queues=1)
            bulk.call(Op.PUBLISH, batch=[
                {"exchange": "", "key": "q", "body": body,
                 "properties": {"delivery_mode": 2, "headers": {"n": 1}}} for body in BODIES
            ])  # fmt: skip
        yield broker


@pytest.fixture
def export(broker: RunningBroker, tmp_path: Path) -> Callable[..., tuple[int, Path]]:
    def run(name: str, file: str, *options: str) -> tuple[int, Path]:
        arguments = ["export", name, str(tmp_path / file), "--url", broker.http_url, *options]
        return main(arguments), tmp_path / file

    return run


Export = Callable[..., tuple[int, Path]]


def test_parquet_and_arrow_have_the_bytes(export: Export) -> None:
    status, file = export("q", "q.parquet")
    assert status == 0
    table = parquet.read_table(file)
    assert table["body"].to_pylist() == BODIES
    status, file = export("q", "q.arrow", "--columns", "body", "--limit", "2")
    with pa.ipc.open_file(str(file)) as found:
        assert found.read_all().to_pydict() == {"body": BODIES[:2]}


def test_text_files_have_other_bytes_in_base64(export: Export) -> None:
    expected = [("one", None), (BODIES[1].decode(), None), (None, "/wA="), ("", None)]
    _, file = export("q", "q.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row.get("body"), row.get("body_base64")) for row in rows] == expected
    assert rows[0]["properties"]["n"] == "1"
    assert rows[0]["timestamp"].endswith("+00:00")
    _, file = export("q", "q.csv")
    with file.open(newline="") as opened:
        found = list(csv.DictReader(opened))
    assert [(row["body"], row["body_base64"]) for row in found] == [
        (text or "", encoded or "") for text, encoded in expected
    ]


@pytest.mark.parametrize(
    ("name", "file", "options", "status", "text"),
    [
        ("q", "q.xlsx", [], 2, ".parquet, .arrow, .csv, .jsonl"),
        ("q", "there.csv", [], 2, "--overwrite"),
        ("q", "q.csv", ["--columns", "price"], 1, "unknown column 'price'"),
        ("nothing", "q.csv", [], 1, "not found"),
        ("both", "q.csv", [], 1, "kind=queue"),
        ("q", "q.csv", ["--vhost", "B"], 1, "not found"),
        ("q", "no/folder/q.csv", [], 1, "No such file"),
    ],
)
def test_mistakes_leave_no_file(
    export: Export,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    file: str,
    options: list[str],
    status: int,
    text: str,
) -> None:
    (tmp_path / "there.csv").write_text("kept")
    found, _ = export(name, file, *options)
    captured = capsys.readouterr().err
    assert (found, text in captured) == (status, True), captured
    assert captured.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "kept"


def test_an_answer_that_breaks_off_is_no_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = pa.schema([("offset", pa.int64())])
    batch = pa.record_batch([pa.array([1])], schema=schema).serialize().to_pybytes()
    data = schema.serialize().to_pybytes() + batch
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-headrace-offsets: 5\r\n"
                connection.sendall(head + b"\r\n%x\r\n%b\r\n" % (len(data), data))

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        status = main(["export", "q", str(tmp_path / "q.jsonl"), "--url", url])
        thread.join()
    assert status == 1
    assert "closed the connection" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
