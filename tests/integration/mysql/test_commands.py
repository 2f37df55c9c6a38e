"""`headrace topic` and `headrace group` on MySQL, without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.main import main
from support.mariadb import PASSWORD, MariaDb

Run = Callable[..., str]


@pytest.fixture
def run(
    server: MariaDb,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Runs one command line on the database named by the environment; its output."""
    monkeypatch.setenv("HEADRACE_STORE", server.url(database, housekeeping="off"))

    def run(*args: str, code: int = 0) -> str:
        assert main(args) == code, capfd.readouterr().err
        captured = capfd.readouterr()
        assert PASSWORD not in captured.out + captured.err
        return captured.out if code == 0 else captured.err

    yield run


def test_a_topic_from_making_to_deleting(run: Run, tmp_path: Path) -> None:
    assert run("topic", "create", "orders") == "created topic orders in engine mysql\n"
    told = run("topic", "append", "orders", "hello", "--priority", "high", "--key", "order-1")
    assert told == "appended 1 message to orders (high), the last one has id 1\n"
    lines = tmp_path / "lines"
    lines.write_text("a\nb\nc\n")
    run("topic", "append", "orders", "--file", str(lines), "--source-ip", "2001:db8::1")
    assert json.loads(run("topic", "list", "--json")) == [
        {"name": "orders", "engine": "mysql", "high": 1, "middle": 3, "low": 0, "queues": 1,
         "retention": None},
    ]  # fmt: skip
    assert "high        ids 1 to 1\nmiddle      ids 1 to 3\nlow         empty" in run(
        "topic", "describe", "orders"
    )
    assert run("topic", "read", "orders", "--peek", "-n", "2", "--lines") == "hello\na\n"
    assert run("topic", "read", "orders", "-n", "2") == "high\t1\torder-1\thello\nmiddle\t1\t\ta\n"
    rest = [json.loads(line) for line in run("topic", "read", "orders", "--json").splitlines()]
    assert [one["body"] for one in rest] == ["b", "c"]
    assert rest[0]["source_ip"] == "2001:db8::1"
    assert run("topic", "read", "orders") == ""
    assert "pass --yes" in run("topic", "delete", "orders", code=2)
    run("topic", "delete", "orders", "--yes")
    assert "no topic 'orders'" in run("topic", "describe", "orders", code=1)


def test_groups_are_seen_set_back_and_forgotten(run: Run) -> None:
    run("topic", "create", "t", "--retention", "7d,500MB", "--argument", "keep_unread=true")
    run("topic", "append", "t", "x", "--count", "2500")
    run("topic", "read", "t", "--group", "g", "-n", "1000", "--lines")
    [row] = json.loads(run("group", "list", "t", "--json"))
    assert (row["group"], row["messages"]) == ("g", 1500)
    lags = json.loads(run("group", "lag", "t", "g", "--json"))
    assert [(one["priority"], one["position"]) for one in lags] == [
        ("high", 0), ("middle", 1000), ("low", 0),
    ]  # fmt: skip
    assert "2,000 messages" in run("group", "reset", "t", "g", "--offset", "middle=500", "--yes")
    assert "2,500 messages" in run("group", "reset", "t", "g", "--to", "earliest", "--yes")
    assert "0 messages" in run("group", "reset", "t", "g", "--to", "latest", "--yes")
    assert "2,500 messages" in run("group", "reset", "t", "g", "--time", "2001-01-01", "--yes")
    assert "no group 'h'" in run("group", "lag", "t", "h", code=1)
    run("topic", "read", "t", "--token", "me", "-n", "5", "--lines")
    assert json.loads(run("group", "lag", "t", "me", "--alone", "--json"))[1]["position"] == 5
    run("group", "delete", "t", "g", "--yes")
    run("group", "delete", "t", "me", "--alone", "--yes")
    assert run("group", "list", "t") == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("topic", "create", "Orders"), "topic name 'Orders' is refused"),
        (("topic", "create", "x", "--retention", "soon"), "retention 'soon'"),
        (("topic", "append", "nope", "x"), "no topic 'nope'"),
        (("topic", "adopt", "nope", "--yes"), "nothing was changed"),
    ],
)
def test_refusals_are_reported_in_one_line(run: Run, args: tuple[str, ...], said: str) -> None:
    told = run(*args, code=1)
    assert said in told and told.count("\n") == 1


def test_wrong_usage(run: Run) -> None:
    assert "choose one of" in run("topic", "list", "--store", "mysql://x/y", "--url", "z", code=2)
    assert "expected mysql://" in run("topic", "list", "--store", "postgres://secret@x/y", code=2)
    run("topic", "create", "t")
    run("topic", "read", "t", "--group", "g")
    assert "pass one of --to" in run("group", "reset", "t", "g", code=2)
    assert "is not a time" in run("group", "reset", "t", "g", "--time", "noon", code=2)
    assert "for example high=17" in run("group", "reset", "t", "g", "--offset", "17", code=2)
    assert "pass --yes" in run("group", "reset", "t", "g", "--to", "latest", code=2)


@pytest.mark.parametrize("form", [("--lines",), ("--json",), ()])
def test_what_the_reader_of_the_output_did_not_take_is_not_committed(
    run: Run, form: tuple[str, ...]
) -> None:
    run("topic", "create", "t")
    run("topic", "append", "t", "x" * 1000, "--count", "3000")
    command = [sys.executable, "-u", "-m", "headrace", "topic", "read", "t", "-n", "3000"]
    with subprocess.Popen([*command, *form], stdout=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        reading.stdout.read(10)
        reading.stdout.close()
        assert reading.wait(60) == 1
    [row] = json.loads(run("group", "list", "t", "--json"))
    assert row["messages"] == 3000


def test_an_output_on_a_full_disk_is_reported_in_one_line(run: Run) -> None:
    run("topic", "create", "t")
    run("topic", "append", "t", "x")
    command = [sys.executable, "-m", "headrace", "topic", "read", "t", "--lines"]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "headrace: the output could not be written: No space left on device\n"
    [row] = json.loads(run("group", "list", "t", "--json"))
    assert row["messages"] == 1
