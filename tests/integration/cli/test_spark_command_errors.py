"""The commands of the Spark side when something is wrong: one clear line, the right exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli.main import main
from headrace.client import ConnectionFactory
from headrace.testing import run_broker

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
GOOD = '[sources.s]\nqueue = "q"\n[sinks.c]\ntype = "console"\n'


def told(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err.removeprefix("headrace: ").rstrip()


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.[ty][oa]m*l")), ids=lambda one: one.name)
def test_examples_are_fine(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "messages").mkdir()  # an archive
    monkeypatch.setenv("LAKE", str(tmp_path))
    assert main(["pipeline", "validate", "--no-spark", str(file)]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: fine (1 source, ")


def test_a_bad_file_is_a_usage_error_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(GOOD.replace("console", "konsole"))
    assert main(["pipeline", "run", str(file)]) == 2
    assert told(capsys).startswith(f"{file}:4: 'type' is 'konsole'; expected one of parquet, delta")
    assert main(["pipeline", "validate", str(tmp_path / "none.toml")]) == 2
    assert told(capsys).endswith("none.toml: No such file or directory")


def test_without_java_the_error_names_the_package_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(GOOD)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["pipeline", "run", str(file), "--state-dir", str(tmp_path)]) == 1
    assert "Spark needs Java 17 or later, but no java is on the PATH: install a JRE" in told(capsys)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["pipeline", "run", str(file), "--state-dir", str(tmp_path)]) == 1
    assert f"JAVA_HOME is {tmp_path}, which has no bin/java" in told(capsys)


@pytest.mark.parametrize(
    ("text", "told_text"),
    [
        (GOOD, "p.toml:2: not_found: no queue 'q' in vhost '/'"),
        (GOOD.replace("queue", "topic"), "p.toml:2: no_such_topic: no topic 'q'"),
        (GOOD.replace('"q"', '"there"').replace('"console"', '"topic"\ntopic = "t"'),
         "p.toml:4: no_such_topic: no topic 't'"),
    ],
)  # fmt: skip
def test_missing_sources_and_sinks_are_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told_text: str
) -> None:
    file = tmp_path / "p.toml"
    with run_broker() as broker:
        with ConnectionFactory("127.0.0.1", broker.native_port or 0).new_connection() as connection:
            connection.create_channel().queue_declare("there", durable=True)
        file.write_text(f'url = "headrace://127.0.0.1:{broker.native_port}/"\n'.join(("", text)))
        assert main(["pipeline", "run", str(file), "--state-dir", str(tmp_path)]) == 1
    assert told_text in told(capsys)


def test_an_unreachable_broker_is_reported_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.toml"
    file.write_text('url = "headrace://127.0.0.1:1/"\n' + GOOD)
    assert main(["pipeline", "run", str(file), "--state-dir", str(tmp_path)]) == 1
    assert "p.toml:2: connection_closed: no broker answers at 127.0.0.1:1" in told(capsys)


@pytest.mark.parametrize(
    "args",
    [
        ["archive", "--lake", "never-made"],
        ["report"],
        ["replay", "-q", "q", "--from", "2026-01-01", "--into", "x"],
    ],
    ids=lambda args: args[0],
)
def test_commands_that_need_a_broker_ask_for_it_before_spark_starts(
    args: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*args: object, **rest: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("headrace.spark.spark_session.start_session", never)
    nowhere = ["--url", "headrace://127.0.0.1:1/", "--state-dir", str(tmp_path)]
    assert main([*args, *nowhere]) == 1
    assert told(capsys).startswith("connection_closed: no broker answers at 127.0.0.1:1")


@pytest.mark.parametrize(
    "url", ["headrace://127.0.0.1:http/", "headrace://127.0.0.1:99999/", "mysql://[::1/db"]
)
def test_an_invalid_address_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'url = "{url}"\n' + GOOD.replace("queue", "topic"))
    assert main(["pipeline", "run", str(file)]) == 2
    assert told(capsys) == f"{file}:2: url: invalid host or port"


def test_a_replay_up_to_now_prints_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.spark.replay.replay import Preview

    job = SimpleNamespace(
        preview=lambda: Preview(1, [("queue", "q", 1)], ["body"], [(b"x",)]),
        send=lambda rate, tell: (1, 0),
    )
    monkeypatch.setattr("headrace.spark.replay.replay.Replay", lambda *args: job)
    opened = nullcontext(SimpleNamespace())
    monkeypatch.setattr("headrace.cli.spark.replay.open_session", lambda *args, **rest: opened)
    command = ["replay", "-q", "q", "--from", "2026-01-01", "--into", "x", "--yes", "--json",
               "--state-dir", str(tmp_path)]  # fmt: skip
    assert main(command) == 0
    assert re.fullmatch(
        r"if it is interrupted, --to \S+\+00:00 continues where it stopped", told(capsys)
    )
    assert main([*command, "--to", "2026-01-02"]) == 0
    assert capsys.readouterr().err == ""


def test_an_old_java_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["archive", "--lake", str(tmp_path), "--state-dir", str(tmp_path)]) == 1
    assert told(capsys).startswith(f"Spark needs Java 17 or later, but {java} is 11: ")


def test_without_pyspark_the_error_names_the_package_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from headrace.cli.main import main\n"
        f"sys.exit(main(['pipeline', 'validate', {str(tmp_path / 'p.toml')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "headrace: this command needs Spark, but pyspark is not installed: "
        "pip install 'headrace[spark]'\n"
    )


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["sql", "SELECT 1", "--lake", "nowhere"], 1, "no archive in nowhere"),
        (["replay", "--from", "soon", "--into", "x"], 2, "--from: wanted e.g. 2026-01-31T12:00"),
        (["replay", "--from", "2026-01-02", "--to", "2026-01-01", "--into", "x"], 2, "before --to"),
        (["replay", "--from", "2026-01-02", "--to", "2990-01-01", "--into", "x"], 2, "the future"),
        (["replay", "--from", "2026-01-02", "--into", "x"], 2, "missing source: pass --queue"),
        (["report", "--from", "2026-01-02", "--to", "2026-01-01"], 2, "--from must be before"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == code
    assert text in told(capsys)


def test_a_place_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "state")
    assert main(["archive", "--lake", str(tmp_path / "lake"), "--state-dir", place]) == 1
    assert "Not a directory" in told(capsys)


def test_what_java_or_a_table_says_is_one_line() -> None:
    from deltalake.exceptions import DeltaError
    from py4j.protocol import Py4JError

    from headrace.cli.support.spark_session import spark_errors
    from headrace.errors import CommandFailed

    for error in (Py4JError("An error occurred\n\tat java.lang"), DeltaError("no log\nmore")):
        with pytest.raises(CommandFailed) as caught, spark_errors(debug=False):
            raise error
        assert "\n" not in str(caught.value)


def test_a_bad_setting_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.toml"
    file.write_text(GOOD)
    assert main(["pipeline", "run", str(file), "--conf", "x", "--state-dir", str(tmp_path)]) == 2
    assert "--conf x: expected KEY=VALUE" in capsys.readouterr().err


def test_pipelines_are_listed_with_their_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    from headrace.spark.pipelines.status import write_state

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    query = {"sink": "c", "rows": 7, "lag": 2}
    for name, pid in (("alive", os.getpid()), ("gone", ended.pid)):
        state: dict[str, object] = {"name": name, "state": "running", "pid": pid}
        state |= {"host": socket.gethostname(), "queries": [query], "bad_records": 1}
        state |= {"updated_at": "now", "error": None}
        write_state(tmp_path, name, state)
    (tmp_path / "pipelines" / "cut.json").write_text("{")
    assert main(["pipeline", "list", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "alive\trunning\t7\t2\t1\tnow\t\ngone\tdied\t7\t2\t1\tnow\t\n"
    assert main(["pipeline", "list", "--json", "--state-dir", str(tmp_path)]) == 0
    assert [one["state"] for one in json.loads(capsys.readouterr().out)] == ["running", "died"]
